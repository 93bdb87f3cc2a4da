// What sessions leave behind: a sealed one's outbox goes to who asked, by real agents; what could run later is told.
#include "agents/two_machines.hpp"
#include "support/catch.hpp"

#include <future>
#include <tuple>

using namespace pinfold;
using namespace pinfold::test;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

json send_message(const std::string& id, const std::string& text, const std::string& from, bool waits) {
    return {{"jsonrpc", "2.0"},
            {"id", 1},
            {"method", "SendMessage"},
            {"params",
             {{"message",
               {{"messageId", id},
                {"role", "ROLE_USER"},
                {"parts", json::array({{{"text", text}}})},
                {"metadata", {{"shrooms/from", from}}}}},
              {"configuration", {{"blocking", waits}}}}}};
}

std::string names_in(const std::string& archive) {
    std::string text;
    std::FILE* pipe = ::popen(("tar tzf '" + archive + "'").c_str(), "r");
    std::array<char, 4096> buffer{};
    while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe))
        text.append(buffer.data(), got);
    ::pclose(pipe);
    return text;
}

json files_of(const api_client& at, const std::string& session) {
    return at.get("/v1/sessions/" + session + "/drop").body.value("files", json::array());
}

// The worker does it and says so, by its tools alone.
void work(const harness_machine& with, const std::string& id) {
    REQUIRE(eventually(
        [&] {
            return with.api().get("/v1/sessions/heron/history").text.find("the tool said") !=
                   std::string::npos;
        },
        std::chrono::seconds(90)));
    REQUIRE(with.api().is("idle"));
    const std::string said = with.turn("CALL mcp__shrooms__task_update " +
                                       json{{"task", id}, {"state", "done"}, {"summary", "looked"}}.dump());
    INFO(said << with.log());
    REQUIRE(said.find(": completed") != std::string::npos);
}

} // namespace

TEST_CASE("a sealed session's results are with who asked before the answer that it waits for, and are named "
          "in it") {
    peer_machine peer;
    harness_machine with(two_machines::agent_options());
    REQUIRE(with.create({{"cage", {{"sealed", true}}}, {"auto_approve", true}}).status == 201);
    REQUIRE(with.api()
                .post("/v1/sessions", {{"name", "boss"},
                                       {"dir", with.project().native()},
                                       {"harness", "command"},
                                       {"command", {"/bin/cat"}}})
                .status == 201);
    REQUIRE(with.api()
                .post("/v1/sessions/boss/settings", {{"accept_files_from", json::array({"laptop/heron"})}})
                .status == 200);
    auto waiting = std::async(std::launch::async, [&] {
        return with.api().post("/a2a/heron",
                               send_message("m-1",
                                            "TOOL mkdir -p /outbox/a; echo found > /outbox/a/r.txt; "
                                            "ln -s /etc/passwd /outbox/link",
                                            "laptop/boss", true));
    });
    work(with, "heron:m-1");
    const json task = waiting.get().body["result"]["task"];
    INFO(task.dump(1) << with.log());
    CHECK(task["status"]["state"] == "TASK_STATE_COMPLETED");
    const std::string result = task["artifacts"][0]["parts"][0]["text"];
    CHECK_THAT(result, StartsWith("looked") &&
                           ContainsSubstring("Its results: sent heron-m-1.tar.gz (1 file) to laptop/boss"));
    const json files = files_of(with.api(), "boss"); // there already
    REQUIRE(files.size() == 1);
    CHECK(files[0]["from"] == "laptop/heron");
    const std::string names = names_in(files[0]["path"]);
    CHECK_THAT(names, ContainsSubstring("a/r.txt"));
    CHECK_THAT(names, !ContainsSubstring("link"));

    // By its owner's word to the other machine, a folder of it; a cage has no such word.
    peer.make_worker("rev", {{"accept_files_from", json::array({"laptop/heron"})}});
    const answered sent = with.api().post("/v1/sessions/heron/outbox/send",
                                          {{"to", "pi5/rev"}, {"only", "a"}});
    INFO(sent.text << peer.log());
    CHECK(sent.status == 200);
    CHECK_THAT(sent.body["result"].get<std::string>(), ContainsSubstring("(1 file) to pi5/rev"));
    CHECK(files_of(peer.api(), "rev").size() == 1);
    const std::string forged = with.api().raw(
        "POST /v1/sessions/heron/outbox/send HTTP/1.1\r\nHost: localhost\r\nX-Shrooms-Caged: "
        "heron\r\nConnection: close\r\n"
        "Content-Type: application/json\r\nContent-Length: 16\r\n\r\n{\"to\":\"pi5/rev\"}");
    CHECK_THAT(forged, StartsWith("HTTP/1.1 403"));
    CHECK(with.api().post("/v1/sessions/heron/outbox/send", {{"to", "nowhere/rev"}}).status == 404);
    CHECK(with.api().post("/v1/sessions/heron/outbox/send", {{"to", "pi5/other"}}).status == 502);
    CHECK(files_of(peer.api(), "rev").size() == 1);
    const json listed = with.api().get("/v1/sessions/heron/outbox").body;
    CHECK(listed["left_out"].size() == 1);
}

TEST_CASE("a sealed session's results go to an asker on the other machine, whose note says so; one that "
          "takes none is told why") {
    peer_machine peer;
    harness_machine with(two_machines::agent_options());
    REQUIRE(with.create({{"cage", {{"sealed", true}}}, {"auto_approve", true}}).status == 201);
    peer.make_worker("boss", {{"accept_files_from", json::array({"laptop/*"})}});
    peer.make_worker("deaf");
    REQUIRE(peer.ask_laptop("/a2a/heron",
                            send_message("m-2", "TOOL echo found > /outbox/r.txt", "pi5/boss", false))
                .contains("result"));
    work(with, "heron:m-2");
    const auto noted = [&](const std::string& who) {
        const auto text = [&] { return peer.api().get("/v1/sessions/" + who + "/history").text; };
        std::ignore = eventually([&] { return text().find("[shrooms note]") != std::string::npos; },
                                 std::chrono::seconds(60));
        return text();
    };
    CHECK_THAT(noted("boss"), ContainsSubstring("Your task laptop/heron:m-2 is done") &&
                                  ContainsSubstring("sent heron-m-2.tar.gz (1 file) to pi5/boss"));
    REQUIRE(files_of(peer.api(), "boss").size() == 1);
    CHECK_THAT(names_in(files_of(peer.api(), "boss")[0]["path"]), ContainsSubstring("r.txt"));

    REQUIRE(peer.ask_laptop("/a2a/heron",
                            send_message("m-3", "TOOL echo more > /outbox/s.txt", "pi5/deaf", false))
                .contains("result"));
    REQUIRE(eventually(
        [&] {
            const json tasks = with.api().get("/v1/tasks?session=heron").body["tasks"];
            return tasks.size() == 2 && tasks[0]["status"]["state"] == "TASK_STATE_WORKING";
        },
        std::chrono::seconds(60)));
    REQUIRE(with.api().is("idle"));
    std::ignore = with.turn("CALL mcp__shrooms__task_update " +
                            json{{"task", "heron:m-3"}, {"state", "failed"}, {"summary", "no"}}.dump());
    CHECK_THAT(noted("deaf"), ContainsSubstring("Its results were not sent to pi5/deaf") &&
                                  ContainsSubstring("takes no files from laptop/heron"));
    CHECK(files_of(peer.api(), "deaf").empty());
}

TEST_CASE("what a session left that could run later is an event of it at its end, and a report, once until "
          "it differs") {
    two_machines with;
    const std::string project = with.project().native();
    REQUIRE(run_command("git init -q " + project + " && chown -R 48211:48211 " + project) == 0);
    with.make("heron", {"/bin/sh", "-c",
                        "cat > /dev/null; cd " + project +
                            "; printf '#!/bin/sh\\n' > .git/hooks/post-commit; chmod +x "
                            ".git/hooks/post-commit; echo 'export A=b' > .envrc; echo planted"});
    const auto events = [&] {
        std::vector<json> found;
        event_reader reader = with.api().events("?after=0");
        const std::uint64_t last = with.api().info()["last_seq"];
        for (json each = reader.next(); !each.is_null(); each = reader.next()) {
            if (each["kind"] == "report") found.push_back(each["data"]);
            if (each["seq"].get<std::uint64_t>() >= last) break;
        }
        return found;
    };
    REQUIRE(with.api().send("go").status == 202);
    REQUIRE(eventually([&] { return !events().empty(); }, std::chrono::seconds(60)));
    const json told = events().front();
    INFO(told.dump(1));
    CHECK(told["count"].get<int>() >= 2);
    CHECK_THAT(told["found"].dump(),
               ContainsSubstring(".git/hooks/post-commit") && ContainsSubstring(".envrc"));
    for (const json& each : told["found"]) CHECK(each["state"] == "new");
    const json report = with.api().get("/v1/sessions/heron/report").body;
    CHECK(report["found"].size() == told["count"]);
    CHECK(!report["since"].is_null());

    // The same again is no news.
    const int turns = with.api().info()["turns"];
    REQUIRE(with.api().send("go").status == 202);
    REQUIRE(eventually(
        [&] { return with.api().info()["turns"].get<int>() > turns && with.api().info()["state"] == "idle"; },
        std::chrono::seconds(60)));
    CHECK(with.api().get("/v1/sessions/heron/report").body["found"].size() == told["count"]);
    CHECK(events().size() == 1);
}

TEST_CASE("doctor names an agent that ignores that an asker is in a cage, and one that heeds it") {
    two_machines with;
    with.peer().make_worker("rev", {{"accept_caged", true}});
    const json facts = with.api().get("/v1/doctor").body["facts"];
    INFO(facts.dump(1) << with.log());
    const auto fact = [&](const std::string& name) {
        for (const json& each : facts)
            if (each["name"] == "agent of " + name) return each;
        return json{{"value", "none"}};
    };
    CHECK_THAT(fact("recorder")["value"].get<std::string>(),
               ContainsSubstring("ignores that an asker is in a cage"));
    CHECK(fact("recorder")["good"] == false);
    CHECK_THAT(fact("pi5")["value"].get<std::string>(), ContainsSubstring("heeds"));
    CHECK(fact("pi5")["good"] == true);
    CHECK(with.peer().api().info("rev")["accept_caged"] == true); // what was asked for changes nothing
}
