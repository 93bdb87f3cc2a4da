// A conversation that was held before: its history goes on into what was said then.
#include "agent/sessions/place.hpp"
#include "agent/sessions/transcript_lines.hpp"
#include "session_fixture.hpp"
#include "support/catch.hpp"

#include <fstream>

using namespace pinfold;
using namespace pinfold::test;

namespace {

std::string entry(const std::string& type, const std::string& minute, const json& content,
                  const json& more = json::object()) {
    json line{{"type", type},
              {"timestamp", "2026-01-31T12:" + minute + ":00.000Z"},
              {"message", {{"role", type}, {"content", content}}}};
    line.update(more);
    return line.dump() + "\n";
}

json text(const std::string& said) {
    return json::array({{{"type", "text"}, {"text", said}}});
}

std::string transcript(const std::string& directory) {
    return entry("user", "01", "first question", {{"cwd", directory}}) +
           entry("assistant", "02", text("first answer")) +
           entry("user", "03", "<command-name>/model</command-name>") +
           entry("user", "03", "a helper's", {{"isSidechain", true}}) +
           entry("user", "03", "a caveat", {{"isMeta", true}}) +
           entry("user", "04", json::array({{{"type", "tool_result"}, {"content", "\"user\" output"}}})) +
           "garbage \"user\"\n[[[[\"user\"\n" + R"({"type":"user","timestamp":7,"message":"x"})" + "\n" +
           entry("user", "05", text("second question")) + entry("assistant", "06", text("second answer"));
}

std::vector<std::string> texts(const json& history) {
    std::vector<std::string> list;
    for (const json& each : history["history"]) list.push_back(each["text"]);
    return list;
}

using list = std::vector<std::string>;

} // namespace

TEST_CASE("history goes on into what was said before a conversation was taken over") {
    session_fixture with;
    const auto folder = with.agent.directory() / "home/.claude/projects" /
                        claude_folder(std::filesystem::canonical(with.project()));
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "conv-1.jsonl") << transcript(with.project().native());
    REQUIRE(with.post("/v1/sessions", {{"name", "heron"}, {"resume", "conv-1"}}).status == 201);
    CHECK(texts(with.get("/v1/sessions/heron/history").body) ==
          list{"first question", "first answer", "second question", "second answer"});
    const json found = with.get("/v1/sessions/heron/search?q=QUESTION").body["found"];
    REQUIRE(found.size() == 2); // the newest first
    CHECK(found[0]["text"] == "second question");
    CHECK(found[0]["seq"] == 0);
    CHECK(found[1]["text"] == "first question");
    CHECK(with.get("/v1/sessions/heron/search?q=question&limit=1").body["found"][0]["text"] ==
          "second question");
    CHECK(with.get("/v1/sessions/heron/search?q=caveat").body["found"].empty());
    event_reader events = with.events();
    REQUIRE(with.send("a third").status == 202);
    REQUIRE(!events.wait_for_claude("result").is_null());
    // The harness goes on writing it; what the agent itself has seen is not told twice.
    std::ofstream(folder / "conv-1.jsonl", std::ios::app)
        << entry("user", "07", "a third", {{"timestamp", now_text()}});
    const list all = texts(with.get("/v1/sessions/heron/history").body);
    REQUIRE(all.size() == 6);
    CHECK(all[3] == "second answer");
    CHECK(all[4] == "a third");
    CHECK(texts(with.get("/v1/sessions/heron/history?limit=3").body) == list(all.end() - 3, all.end()));
    CHECK(texts(with.get("/v1/sessions/heron/history?before=2026-01-31T12:05:00.000Z").body) ==
          list{"first question", "first answer"});
    CHECK(texts(with.get("/v1/sessions/heron/history?limit=1&before=2026-01-31T12:05:00.000Z").body) ==
          list{"first answer"});
    std::filesystem::remove(folder / "conv-1.jsonl");
    CHECK(texts(with.get("/v1/sessions/heron/history").body).size() == 2);
}

TEST_CASE("a transcript that is a link, a FIFO or endless says nothing and holds nobody up") {
    const scratch_directory scratch;
    const auto real = scratch.path() / "real", link = scratch.path() / "link", fifo = scratch.path() / "fifo";
    std::ofstream(real) << entry("user", "01", "said");
    std::filesystem::create_symlink(real, link);
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    const auto lines_of = [](const std::filesystem::path& file) {
        transcript_lines all(file, "9999-01-01T00:00:00Z", 10);
        std::size_t pieces = 0;
        while (all.read_more()) ++pieces;
        CHECK(pieces <= transcript_lines::most_bytes / transcript_lines::piece);
        return all.lines().size();
    };
    CHECK(lines_of(real) == 1); // the twin
    CHECK(lines_of(link) == 0);
    CHECK(lines_of(fifo) == 0);
    CHECK(lines_of("/dev/zero") == 0);
    CHECK(lines_of(scratch.path() / "none") == 0);
    const unique_fd large(::open(real.c_str(), O_WRONLY | O_CLOEXEC));
    REQUIRE(::ftruncate(large.get(), off_t{1} << 40) == 0); // sparse: it is never read to its end
    CHECK(lines_of(real) == 1);
}
