// Sessions of plain commands: the queue while one works, what survives the agent, and the list of sessions itself.
#include "session_fixture.hpp"
#include "support/catch.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

using namespace pinfold;
using namespace pinfold::test;

namespace {

json shell(const std::string& script) {
    return {{"harness", "command"}, {"command", {"sh", "-c", script}}};
}

} // namespace

TEST_CASE("each message starts the command once, and what came meanwhile waits its turn") {
    session_fixture with;
    const auto gate = with.agent.directory() / "gate";
    const std::string script = "read line; while [ ! -e " + gate.native() +
                               " ]; do sleep 0.05; done; echo \"got $line\"";
    REQUIRE(with.create(shell(script)).status == 201);
    event_reader events = with.events();
    REQUIRE(with.send("one").status == 202);
    REQUIRE(with.send("two").status == 202);
    REQUIRE(with.send("three").status == 202);
    CHECK(with.info()["state"] == "working");
    std::ofstream(gate) << "";
    std::vector<std::string> said;
    for (int i = 0; i < 3; ++i) {
        said.push_back(events.wait_for_claude("assistant")["data"]["message"]["content"][0]["text"]);
        CHECK(events.wait_for("stopped")["data"]["reason"] == "finished");
    }
    CHECK(said == std::vector<std::string>{"got one", "got two", "got three"});
    CHECK(with.is("idle"));
    CHECK(with.info()["turns"] == 3);
}

TEST_CASE("a command that fails says so with its last words; one that works can be interrupted") {
    session_fixture with;
    REQUIRE(with.create(shell("echo no such luck >&2; exit 4")).status == 201);
    event_reader events = with.events();
    REQUIRE(with.send("x").status == 202);
    CHECK(events.wait_for_claude("result")["data"]["is_error"] == true);
    CHECK(events.wait_for("stopped")["data"]["reason"] == "its program ended with status 4: no such luck");
    CHECK(with.remove("/v1/sessions/heron").status == 204);

    REQUIRE(with.create(shell("echo begun; exec sleep 1000")).status == 201);
    event_reader second = with.events();
    REQUIRE(with.send("x").status == 202);
    REQUIRE(!second.wait_for_claude("assistant").is_null());
    CHECK(with.post("/v1/sessions/heron/interrupt").status == 202);
    CHECK_THAT(second.wait_for("stopped")["data"]["reason"].get<std::string>(),
               Catch::Matchers::ContainsSubstring("status 130"));
}

TEST_CASE(
    "kill -9 of the agent loses no event that was told of, doubles none, and what waited is delivered") {
    session_fixture with;
    const auto out = with.agent.directory() / "out", gate = with.agent.directory() / "gate";
    const std::string script = "read line; echo $line >> " + out.native() + "; while [ ! -e " +
                               gate.native() + " ]; do sleep 0.05; done; echo \"got $line\"";
    REQUIRE(with.create(shell(script)).status == 201);
    std::vector<json> told;
    {
        event_reader events = with.events();
        REQUIRE(with.send("one", "m-1").status == 202);
        REQUIRE(with.send("two", "m-2").status == 202);
        while (told.size() < 2) told.push_back(events.next());
    }
    CHECK(eventually([&] { return std::filesystem::exists(out); }));
    with.agent.stop(SIGKILL);
    std::ofstream(gate) << "";
    with.agent.start(session_fixture::with_standin({}));
    event_reader events = with.events("?after=0");
    for (const json& each : told) CHECK(events.next() == each);
    CHECK(events.wait_for("stopped")["data"]["reason"] == "its agent ended, and with it its program");
    // The first was with a program that is gone, and is not repeated; the second had waited.
    CHECK(events.wait_for_claude("assistant")["data"]["message"]["content"][0]["text"] == "got two");
    CHECK(with.send("two", "m-2").body == json{{"duplicate", true}});
    CHECK(with.is("idle"));
    std::ifstream from(out);
    CHECK(std::string{std::istreambuf_iterator<char>(from), {}} == "one\ntwo\n");
}

TEST_CASE("sessions are made, listed, renamed and deleted, and what cannot be meant is refused") {
    session_fixture with;
    CHECK(with.get("/v1/sessions").body["sessions"] == json::array());
    const answered made = with.create({{"keep_running", false}});
    REQUIRE(made.status == 201);
    CHECK(made.body["state"] == "idle");
    CHECK(made.body["mode"] == "uncaged");
    CHECK(made.body["harness"] == "claude");
    CHECK(made.body["caps"] == json{{"approve", true}, {"takeover", true}});
    CHECK(made.body["accept_caged"] == false);
    CHECK(!made.body.contains("cage"));
    CHECK(with.create().status == 400); // the name is taken
    for (const json& wrong : std::vector<json>{{{"name", "../x"}},
                                               {{"name", ""}},
                                               {{"name", "a b"}},
                                               {{"name", std::string(65, 'a')}},
                                               {{"name", 7}},
                                               {{"name", "b"}, {"dir", ""}},
                                               {{"name", "b"}, {"dir", "/etc/passwd"}},
                                               {{"name", "b"}, {"harness", "emacs"}},
                                               {{"name", "b"}, {"harness", "command"}},
                                               {{"name", "b"}, {"cage", json::object()}}, // no keeper here
                                               {{"name", "b"}, {"resume", "../../x"}},
                                               {{"name", "b"}, {"resume", "none"}}}) {
        const answered refused = with.create(wrong);
        INFO(wrong.dump() << " " << refused.text);
        CHECK(refused.status == 400);
        CHECK(refused.body.contains("error"));
    }
    CHECK(with.get("/v1/sessions").body["sessions"].size() == 1);
    const auto fresh = with.agent.directory() / "not/yet";
    CHECK(with.create({{"name", "b"}, {"dir", fresh.native()}}).status == 201);
    CHECK(std::filesystem::is_directory(fresh)); // made, since all else was good
    CHECK(with.post("/v1/sessions/heron/rename", {{"name", "b"}}).status == 409);
    CHECK(with.post("/v1/sessions/heron/rename", {{"name", "/"}}).status == 409);
    CHECK(with.post("/v1/sessions/nobody/rename", {{"name", "c"}}).status == 404);
    CHECK(with.post("/v1/sessions/heron/rename", {{"name", "egret"}}).body["name"] == "egret");
    CHECK(with.get("/v1/sessions/heron").status == 404);
    const answered listed = with.get("/v1/sessions?tail=5");
    CHECK(listed.body["sessions"][1]["name"] == "egret");
    CHECK(listed.body["sessions"][1]["tail"][0]["kind"] == "renamed");
    CHECK(with.remove("/v1/sessions/egret").status == 204);
    CHECK(with.remove("/v1/sessions/egret").status == 404);
    CHECK(with.get("/v1/harnesses").body["harnesses"][0]["name"] == "claude");
    CHECK(with.get("/v1/harnesses").body["cage"]["available"] == false);
}

TEST_CASE("history and search find what was said, newest last and newest first") {
    session_fixture with;
    REQUIRE(with.create(shell("read line; echo \"Answer to $line\"")).status == 201);
    event_reader events = with.events();
    for (const char* each : {"alpha", "beta"}) {
        REQUIRE(with.send(each).status == 202);
        REQUIRE(!events.wait_for("stopped").is_null());
    }
    const json history = with.get("/v1/sessions/heron/history").body["history"];
    REQUIRE(history.size() == 4);
    CHECK(history[0]["role"] == "user");
    CHECK(history[0]["text"] == "alpha");
    CHECK(history[3]["text"] == "Answer to beta");
    CHECK(with.get("/v1/sessions/heron/history?limit=1").body["history"][0]["text"] == "Answer to beta");
    const std::string time = history[2]["time"];
    CHECK(with.get("/v1/sessions/heron/history?before=" + time).body["history"].size() == 2);
    CHECK(with.get("/v1/sessions/heron/history?before=yesterday").status == 400);
    const json found = with.get("/v1/sessions/heron/search?q=ANSWER").body["found"];
    REQUIRE(found.size() == 2);
    CHECK(found[0]["snippet"] == "Answer to beta");
    CHECK(with.get("/v1/sessions/heron/search?q=gamma").body["found"].empty());
    CHECK(with.get("/v1/sessions/heron/search").status == 400);
}

TEST_CASE("a session whose directory vanished refuses the message, and others go on") {
    session_fixture with;
    const auto other = with.agent.directory() / "other";
    REQUIRE(with.create(shell("cat")).status == 201);
    json second = shell("cat");
    second.update({{"name", "egret"}, {"dir", other.native()}});
    REQUIRE(with.create(second).status == 201);
    std::filesystem::remove_all(with.project());
    const answered refused = with.send("x", "m-1");
    CHECK(refused.status == 409);
    CHECK_THAT(refused.body["error"].get<std::string>(),
               Catch::Matchers::ContainsSubstring(with.project().native()));
    CHECK(with.post("/v1/sessions/egret/messages", {{"text", "x"}}).status == 202);
    std::filesystem::create_directories(with.project());
    CHECK(with.send("x", "m-1").status == 202); // the same message, sent again
}
