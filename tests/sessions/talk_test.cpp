// A session with Claude Code's protocol: messages, partial text, permissions, questions, interrupts and ends.
#include "session_fixture.hpp"
#include "support/catch.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <vector>

using namespace pinfold;
using namespace pinfold::test;

namespace {

std::string text_of(const json& event) {
    return event.is_null() ? "" : event["data"]["message"]["content"][0].value("text", "");
}

json next_text(event_reader& from, const std::string& wanted) {
    return from.wait_for("claude", [&](const json& data) {
        return data.value("type", "") == "assistant" &&
               data["message"]["content"][0].value("text", "").find(wanted) != std::string::npos;
    });
}

} // namespace

TEST_CASE("a message is answered: kept, streamed in parts, and the session idle again") {
    session_fixture with;
    REQUIRE(with.create().status == 201);
    event_reader events = with.events();
    CHECK(with.send("good morning", "m-1").status == 202);
    const json message = events.wait_for("message");
    CHECK(message["data"]["text"] == "good morning");
    CHECK(message["data"]["id"] == "m-1");
    const json part = events.wait_for("partial");
    CHECK(part["data"]["text"] == "good m");
    CHECK(part["has_id"] == false); // shown, not kept
    CHECK(text_of(events.wait_for_claude("assistant")) == "echo: good morning");
    const json result = events.wait_for_claude("result");
    CHECK(result["data"]["subtype"] == "success");
    CHECK(with.is("idle"));
    const json info = with.info();
    CHECK(info["running"] == true);
    CHECK(info["turns"] == 1);
    CHECK(info["model"] == "stand-in");
    CHECK(info["preview"] == "echo: good morning");
    CHECK(info["context_used"] == 15);
    CHECK(info["context_window"] == 200000);
    CHECK(info["last_seq"] == result["seq"]);

    const answered again = with.send("good morning", "m-1"); // a device that did not hear the answer
    CHECK(again.status == 200);
    CHECK(again.body == json{{"duplicate", true}});
    CHECK(with.info()["last_seq"] == result["seq"]); // nothing was sent
}

TEST_CASE("an event stream goes on behind the last number that its reader has") {
    session_fixture with;
    REQUIRE(with.create().status == 201);
    event_reader first = with.events();
    for (const char* text : {"one", "two"}) {
        REQUIRE(with.send(text).status == 202);
        REQUIRE(!first.wait_for_claude("result").is_null());
    }
    std::vector<std::uint64_t> all;
    const std::uint64_t last = with.info()["last_seq"];
    event_reader from_begin = with.events("?after=0");
    for (json event = from_begin.next(); !event.is_null(); event = from_begin.next()) {
        all.push_back(event["seq"]);
        if (event["seq"] == last) break;
    }
    REQUIRE(all.size() == last); // each once, none missing
    CHECK(std::ranges::is_sorted(all));
    CHECK(with.events("?after=3").next()["seq"] == 4);
    CHECK(with.events("?after=1", "Last-Event-ID: 5\r\n").next()["seq"] == 6); // the header wins
    CHECK(with.events("?tail=2").next()["seq"] == last - 1);
    CHECK(with.events("?after=3&tail=1").next()["seq"] == 4); // a tail is for who has nothing yet
    CHECK(with.get("/v1/sessions/heron/events?after=x").status == 400);
    CHECK(with.get("/v1/sessions/nobody/events").status == 404);
    CHECK_THAT(from_begin.head(), Catch::Matchers::ContainsSubstring("text/event-stream"));
}

TEST_CASE("a permission waits for the owner, who allows or denies it once") {
    session_fixture with;
    REQUIRE(with.create().status == 201);
    event_reader events = with.events();
    REQUIRE(with.send("run make").status == 202);
    const json asked = events.wait_for_claude("control_request");
    const std::string id = asked["data"]["request_id"];
    CHECK(with.is("waiting"));
    const json info = with.info();
    CHECK(info["pending"] == 1);
    CHECK(info["prompts"][0]["tool"] == "Bash");
    CHECK(info["prompts"][0]["input"]["command"] == "make");
    CHECK(with.post("/v1/sessions/heron/cage", {{"cage", nullptr}}).status == 409); // not while it waits
    CHECK(with.post("/v1/sessions/heron/prompts/other", {{"allow", true}}).status == 409);
    CHECK(with.post("/v1/sessions/heron/prompts/" + id, {{"allow", "yes"}}).status == 400);
    CHECK(with.info()["pending"] == 1);
    CHECK(with.post("/v1/sessions/heron/prompts/" + id, {{"allow", true}}).status == 204);
    CHECK(events.wait_for("answer")["data"]["allow"] == true);
    CHECK(!next_text(events, "done").is_null());
    CHECK(with.post("/v1/sessions/heron/prompts/" + id, {{"allow", true}}).status == 409); // once

    REQUIRE(with.send("run rm").status == 202);
    const std::string second = events.wait_for_claude("control_request")["data"]["request_id"];
    CHECK(with.post("/v1/sessions/heron/prompts/" + second, {{"allow", false}, {"message", "not that"}})
              .status == 204);
    CHECK(!next_text(events, "denied: not that").is_null());
}

TEST_CASE("auto-approve answers what waits and what comes, but no question") {
    session_fixture with;
    REQUIRE(with.create().status == 201);
    event_reader events = with.events();
    REQUIRE(with.send("run one").status == 202);
    REQUIRE(!events.wait_for_claude("control_request").is_null());
    CHECK(with.is("waiting"));
    const answered set = with.post("/v1/sessions/heron/settings",
                                   {{"auto_approve", true}, {"starred", true}});
    CHECK(set.status == 200);
    CHECK(set.body["auto_approve"] == true);
    CHECK(set.body["starred"] == true);
    CHECK(!next_text(events, "done").is_null());
    REQUIRE(with.send("run two").status == 202);
    CHECK(!next_text(events, "done").is_null());
    REQUIRE(with.send("ask which one?").status == 202);
    REQUIRE(!events.wait_for_claude("control_request").is_null());
    CHECK(with.is("waiting"));
    CHECK(with.post("/v1/sessions/heron/prompts/req-q", {{"allow", true}}).status ==
          409); // a yes is no answer
    CHECK(with.post("/v1/sessions/heron/prompts/req-q", {{"allow", true}, {"answers", {{"which one?", "b"}}}})
              .status == 204);
    CHECK(!next_text(events, R"(answered: {"which one?": "b"})").is_null());
}

TEST_CASE("an interrupt ends the turn, not the session; without a turn it is refused") {
    session_fixture with;
    REQUIRE(with.create().status == 201);
    CHECK(with.post("/v1/sessions/heron/interrupt").status == 409);
    event_reader events = with.events();
    REQUIRE(with.send("slow").status == 202);
    REQUIRE(!events.wait_for("claude").is_null());
    CHECK(with.is("working"));
    CHECK(with.post("/v1/sessions/heron/interrupt").status == 202);
    CHECK(events.wait_for_claude("result")["data"]["subtype"] == "error_during_execution");
    CHECK(with.is("idle"));
    REQUIRE(with.send("still here").status == 202);
    CHECK(!next_text(events, "echo: still here").is_null());
}

TEST_CASE("a program that falls over is told of, and the next message resumes the conversation") {
    session_fixture with;
    REQUIRE(with.create().status == 201);
    event_reader events = with.events();
    REQUIRE(with.send("crash").status == 202);
    const json stopped = events.wait_for("stopped");
    CHECK_THAT(stopped["data"]["reason"].get<std::string>(),
               Catch::Matchers::ContainsSubstring("status 3: the stand-in fell over"));
    CHECK(with.info()["running"] == false);
    CHECK(with.is("idle"));
    REQUIRE(with.send("back?").status == 202);
    const json begun = events.wait_for("claude",
                                       [](const json& data) { return data.value("subtype", "") == "init"; });
    CHECK(begun["data"]["resumed"].is_string()); // the same conversation
    CHECK(!next_text(events, "echo: back?").is_null());

    CHECK(with.post("/v1/sessions/heron/restart").status == 204);
    CHECK(!events.wait_for("restarted").is_null());
    REQUIRE(with.send("again").status == 202);
    CHECK(!next_text(events, "echo: again").is_null());
}

TEST_CASE("garbage, very long lines and long answers harm nobody") {
    session_fixture with;
    REQUIRE(with.create().status == 201);
    event_reader events = with.events();
    REQUIRE(with.send("garbage").status == 202);
    CHECK(!next_text(events, "after garbage").is_null());
    REQUIRE(with.send("big 5000000").status == 202);
    CHECK(text_of(next_text(events, "yyyy")).size() == 5'000'000);
    CHECK(with.is("idle"));
}

TEST_CASE("an idle program is ended after its time, and started again by the next message") {
    session_fixture with({"--idle", "1"});
    REQUIRE(with.create().status == 201);
    event_reader events = with.events();
    REQUIRE(with.send("one").status == 202);
    CHECK(events.wait_for("stopped")["data"]["reason"] == "idle");
    CHECK(with.info()["running"] == false);
    REQUIRE(with.send("two").status == 202);
    CHECK(!next_text(events, "echo: two").is_null());

    // Kept running it is not ended, and it is started again by itself when it fell over.
    REQUIRE(with.post("/v1/sessions/heron/settings", {{"keep_running", true}}).status == 200);
    REQUIRE(with.send("crash").status == 202);
    CHECK(!events
               .wait_for("stopped",
                         [](const json& data) {
                             return data["reason"].get<std::string>().find("status 3") != std::string::npos;
                         })
               .is_null());
    CHECK(eventually([&] { return with.info()["running"] == true; }, std::chrono::seconds(30)));
}

TEST_CASE("a harness that cannot be started is a refused message, and nothing of it is kept") {
    agent_fixture agent({"--claude", "/nonexistent/claude"});
    std::filesystem::create_directories(agent.directory() / "project");
    const json body{{"name", "heron"}, {"dir", (agent.directory() / "project").native()}};
    REQUIRE(parse_answer(agent.post("/v1/sessions", body.dump())).status == 201);
    const answered sent = parse_answer(
        agent.post("/v1/sessions/heron/messages", R"({"text":"x","id":"m-1"})"));
    CHECK(sent.status == 409);
    CHECK_THAT(sent.body["error"].get<std::string>(),
               Catch::Matchers::ContainsSubstring("/nonexistent/claude"));
    CHECK(parse_answer(agent.get("/v1/sessions/heron")).body["last_seq"] == 0);
}
