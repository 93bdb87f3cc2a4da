// What the clock does to tasks: reminders, stalled, expired, forgotten.
#include "support/catch.hpp"
#include "task_machine.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace pinfold;
using namespace pinfold::test;
using namespace std::chrono_literals;

namespace {

std::size_t count_of(const std::string& text, const std::string& what) {
    std::size_t found = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
    return found;
}

json metadata(const task_machine& with, const std::string& id) {
    return with.task_now(id).value("metadata", json::object());
}

bool reminded(const task_machine& with, std::size_t times) {
    return eventually([&] { return count_of(text_of(with.out()), "nothing was heard of it") == times; },
                      30s) &&
           with.is("idle");
}

} // namespace

TEST_CASE("a quiet worker is reminded five times, ever more seldom, and then the next task begins") {
    task_machine with;
    REQUIRE(with.make().status == 201);
    REQUIRE(with.ask("long", "long work").contains("id"));
    REQUIRE(with.ask("next", "next work").contains("id"));
    REQUIRE(says(with.out(), "long work"));
    REQUIRE(with.becomes("heron:long", "WORKING"));
    REQUIRE(with.is("idle"));
    std::size_t times = 0;
    for (const auto quiet : {5min + 5s, 1min + 5s, 2min + 5s, 5min + 5s, 10min + 5s}) {
        with.pass(quiet);
        REQUIRE(reminded(with, ++times));
        CHECK(metadata(with, "heron:long")["shrooms/nudges"] == times);
    }
    CHECK(metadata(with, "heron:long")["shrooms/stalled"] == false);
    CHECK(text_of(with.out()).find("next work") == std::string::npos);
    with.pass(30min + 5s);
    REQUIRE(says(with.out(), "next work"));
    CHECK(metadata(with, "heron:long")["shrooms/stalled"] == true);
    CHECK(with.info()["tasks_stalled"] == 1);
    CHECK(with.report("heron:long", "done", "after all").status == 200); // late is not never
    CHECK(metadata(with, "heron:long")["shrooms/stalled"] == false);
}

TEST_CASE("a task that waits for its asker is not reminded of, however long that takes") {
    task_machine with;
    REQUIRE(with.make().status == 201);
    REQUIRE(with.ask("a", "x").contains("id"));
    REQUIRE(with.becomes("heron:a", "WORKING"));
    REQUIRE(with.is("idle"));
    CHECK(with.report("heron:a", "blocked", "?").status == 200);
    with.pass(12h);
    // The positive twin, and the proof that the clock was looked at: a second task is reminded of.
    REQUIRE(with.ask("b", "y").contains("id"));
    REQUIRE(with.becomes("heron:b", "WORKING"));
    REQUIRE(with.is("idle"));
    with.pass(6min);
    REQUIRE(reminded(with, 1));
    CHECK(metadata(with, "heron:a")["shrooms/nudges"] == 0);
    CHECK(metadata(with, "heron:b")["shrooms/nudges"] == 1);
}

TEST_CASE("after its owner interrupted it a session is not reminded until somebody speaks to it") {
    task_machine with;
    const std::filesystem::path gate = with.directory() / "gate";
    std::filesystem::create_directories(with.directory() / "project");
    const std::string script = "cat >> " + with.out().native() + "; [ -e " + gate.native() +
                               " ] || exec sleep 1000";
    REQUIRE(with.post("/v1/sessions", {{"name", "heron"},
                                       {"dir", (with.directory() / "project").native()},
                                       {"harness", "command"},
                                       {"command", {"/bin/sh", "-c", script}}})
                .status == 201);
    REQUIRE(with.make("twin").status == 201);
    REQUIRE(with.ask("a", "long work").contains("id"));
    REQUIRE(says(with.out(), "long work"));
    REQUIRE(with.becomes("heron:a", "WORKING"));
    // The twin's task is looked at behind it, so its reminder says that this one was left in peace.
    REQUIRE(with.call("SendMessage", message("t", "x"), "", "twin").contains("id"));
    REQUIRE(says(with.out("twin"), "twin:t"));
    CHECK(with.post("/v1/sessions/heron/interrupt").status == 202);
    REQUIRE(with.is("idle"));
    std::ofstream(gate) << "";
    with.pass(6min);
    REQUIRE(says(with.out("twin"), "nothing was heard of it"));
    CHECK(metadata(with, "heron:a")["shrooms/nudges"] == 0);
    CHECK(with.send("go on").status == 202);
    REQUIRE(says(with.out(), "go on"));
    REQUIRE(with.is("idle"));
    with.pass(6min);
    REQUIRE(reminded(with, 1));
    CHECK(metadata(with, "heron:a")["shrooms/nudges"] == 1);
}

TEST_CASE("a task that is open for a day is canceled, held ones too, and its asker is told") {
    task_machine with;
    REQUIRE(with.make().status == 201);
    REQUIRE(with.make("w1").status == 201);
    REQUIRE(with.ask("held", "x", "w1").contains("id"));
    REQUIRE(with.ask("given", "x").contains("id"));
    REQUIRE(with.becomes("heron:given", "WORKING"));
    with.pass(23h);
    CHECK(with.state("heron:held") == "TASK_STATE_SUBMITTED");
    with.pass(1h + 1min);
    CHECK(with.becomes("heron:held", "CANCELED"));
    CHECK(with.becomes("heron:given", "CANCELED"));
    CHECK(metadata(with, "heron:held")["shrooms/expired"] == true);
    CHECK(says(with.out("w1"), "laptop/heron:held has expired"));
    CHECK(says(with.out(), "heron:given from this machine] It was canceled"));
    CHECK(with.post("/v1/tasks/heron:held/allow").status == 409);
    CHECK(with.get("/v1/tasks").body["tasks"].size() == 2);
    with.pass(24h * 7 + 1min);
    CHECK(eventually([&] { return with.get("/v1/tasks").body["tasks"].empty(); }));
    CHECK(with.task_now("heron:held")["code"] == -32001);
}

TEST_CASE("an agent that has no task does not look for what is due, and begins with the first one") {
    task_machine with;
    REQUIRE(with.make().status == 201);
    const std::uint64_t before = with.clock_reads();
    std::this_thread::sleep_for(std::chrono::milliseconds(500)); // ten times the pause between two looks
    CHECK(with.clock_reads() == before);
    REQUIRE(with.ask("m-1", "x").contains("id"));
    const std::uint64_t asked = with.clock_reads();
    CHECK(eventually([&] { return with.clock_reads() > asked + 5; }));
}

TEST_CASE("an asker that does not wait is told by a note: of a question, and of the end") {
    task_machine with;
    REQUIRE(with.make().status == 201);
    REQUIRE(with.make("w1").status == 201);
    json asked = with.call(
        "SendMessage", message("n", "x", {{"shrooms/from", "laptop/w1"}, {"shrooms/title", "the title"}}));
    REQUIRE(asked.contains("id"));
    CHECK(asked["metadata"]["shrooms/title"] == "the title");
    REQUIRE(with.becomes("heron:n", "WORKING"));
    CHECK(with.report("heron:n", "blocked", "which one?").status == 200);
    REQUIRE(says(with.out("w1"), "Your task laptop/heron:n (the title) needs your answer:\nwhich one?"));
    CHECK(with.post("/v1/tasks/heron:n/answer", {{"text", "the left one"}}).status == 200);
    REQUIRE(says(with.out(), "the left one"));
    REQUIRE(with.becomes("heron:n", "WORKING"));
    CHECK(with.report("heron:n", "done", "here it is").status == 200);
    REQUIRE(says(with.out("w1"), "is done:\nhere it is"));
    CHECK(count_of(text_of(with.out("w1")), "[shrooms note]") == 2);
    // Who waits sees it himself.
    json params = message("seen", "x", {{"shrooms/from", "laptop/w1"}});
    params["configuration"] = {{"blocking", true}};
    auto answer = std::async(std::launch::async, [&] { return with.call("SendMessage", params); });
    REQUIRE(with.becomes("heron:seen", "WORKING"));
    CHECK(with.report("heron:seen", "done", "seen").status == 200);
    CHECK(answer.get()["status"]["state"] == "TASK_STATE_COMPLETED");
    REQUIRE(with.ask("last", "x").contains("id"));
    REQUIRE(with.becomes("heron:last", "WORKING"));
    CHECK(count_of(text_of(with.out("w1")), "[shrooms note]") == 2);
    // A session that goes takes its tasks along, and who asked is told.
    REQUIRE(with.call("SendMessage", message("gone", "x", {{"shrooms/from", "laptop/w1"}})).contains("id"));
    CHECK(with.remove("/v1/sessions/heron").status == 204);
    CHECK(says(with.out("w1"), "laptop/heron:gone failed:\nThe session that it was asked of was deleted."));
    CHECK(with.get("/v1/tasks").body["tasks"] == json::array());
}
