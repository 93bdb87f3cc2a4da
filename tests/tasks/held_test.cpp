// Tasks from cages that a session does not take by itself: held, allowed once or always, declined; and what a cage
// may not do about it.
#include "support/catch.hpp"
#include "task_machine.hpp"

using namespace pinfold;
using namespace pinfold::test;

namespace {

bool is_held(const json& task) {
    return task.value("status", json::object()).value("state", "") == "TASK_STATE_SUBMITTED" &&
           task.value("metadata", json::object()).value("shrooms/held", false);
}

} // namespace

TEST_CASE("a cage's task is held until the owner allows it once, and the worker hears nothing before") {
    task_machine with;
    REQUIRE(with.make().status == 201);
    json params = message("m-1", "secret work", {{"shrooms/from", "laptop/w1"}});
    params["configuration"] = {{"blocking", true}};
    json held = with.call("SendMessage", params,
                          "w1"); // and its asker does not wait ten minutes for it
    INFO(held.dump());
    REQUIRE(is_held(held));
    CHECK(held["status"]["message"]["parts"][0]["text"].get<std::string>().find("owner") !=
          std::string::npos);
    CHECK(held["metadata"]["shrooms/caged"] == true);
    CHECK(held["metadata"]["shrooms/from"] == "this machine (laptop/w1, in a cage)");
    CHECK(with.info()["tasks_held"] == 1);
    // A later task of this machine's own goes past it: were it given in turn, it would be first.
    REQUIRE(with.ask("own", "own work").contains("id"));
    REQUIRE(says(with.out(), "own work"));
    CHECK(text_of(with.out()).find("secret work") == std::string::npos);
    REQUIRE(with.becomes("heron:own", "WORKING"));
    CHECK(with.report("heron:own", "done").status == 200);

    answered allowed = with.post("/v1/tasks/heron:m-1/allow");
    CHECK(allowed.status == 200);
    REQUIRE(
        says(with.out(), "[shrooms task heron:m-1 from this machine (laptop/w1, in a cage)]\nsecret work"));
    CHECK(with.post("/v1/tasks/heron:m-1/allow").status == 409);
    CHECK(is_held(with.ask("m-2", "more", "w1"))); // once, not always
}

TEST_CASE("allowed always, an asker's held and further tasks are taken, and nobody else's") {
    task_machine with;
    REQUIRE(with.make().status == 201);
    for (const char* each : {"a", "b"}) REQUIRE(is_held(with.ask(each, each, "w1")));
    REQUIRE(is_held(with.ask("other", "x", "w2")));
    CHECK(with.post("/v1/tasks/heron:a/allow", {{"always", true}}).status == 200);
    CHECK(with.info()["accept_caged_from"] == json::array({"laptop/w1"}));
    CHECK(!is_held(with.task_now("heron:b")));
    CHECK(is_held(with.task_now("heron:other")));
    CHECK(!is_held(with.ask("c", "x", "w1")));
    CHECK(is_held(with.ask("other-2", "x", "w2")));
    // By setting, too: all of a machine, then all.
    CHECK(with.post("/v1/sessions/heron/settings", {{"accept_caged_from", {"pi5/*"}}}).status == 200);
    CHECK(is_held(with.ask("d", "x", "w1")));
    CHECK(with.post("/v1/sessions/heron/settings", {{"accept_caged_from", {"laptop/*"}}}).status == 200);
    CHECK(!is_held(with.task_now("heron:d")));
    CHECK(with.post("/v1/sessions/heron/settings", {{"accept_caged_from", json::array()}}).status == 200);
    CHECK(is_held(with.ask("e", "x", "w1")));
    CHECK(with.post("/v1/sessions/heron/settings", {{"accept_caged", true}}).status == 200);
    CHECK(!is_held(with.task_now("heron:e")));
    CHECK(with.post("/v1/sessions/heron/settings", {{"accept_caged_from", {"everybody"}}}).status == 400);
}

TEST_CASE("a declined task tells its asker why, and its worker nothing") {
    task_machine with;
    REQUIRE(with.make().status == 201);
    REQUIRE(with.make("w1").status == 201);
    REQUIRE(is_held(with.ask("m-1", "do evil", "w1")));
    CHECK(with.post("/v1/tasks/heron:m-1/decline", {{"reason", "not on my machine"}}).status == 200);
    json seen = with.task_now("heron:m-1", "w1");
    CHECK(seen["status"]["state"] == "TASK_STATE_REJECTED");
    CHECK(seen["status"]["message"]["parts"][0]["text"] == "not on my machine");
    REQUIRE(says(with.out("w1"), "[shrooms note] Your task laptop/heron:m-1 was declined"));
    CHECK(says(with.out("w1"), "not on my machine"));
    REQUIRE(with.ask("own", "own work").contains("id"));
    REQUIRE(says(with.out(), "own work"));
    CHECK(text_of(with.out()).find("do evil") == std::string::npos);
}

TEST_CASE("a caged agent decides nothing, lists nothing and cancels nothing") {
    task_machine with;
    REQUIRE(with.make().status == 201);
    REQUIRE(is_held(with.ask("m-1", "x", "w1")));
    const auto refused = [&](const std::string& method, const std::string& path, const json& body) {
        const int status = with.send_as(method, "w1", path, body.dump()).status;
        INFO(method << " " << path);
        CHECK(status == 403);
        CHECK(is_held(with.task_now("heron:m-1")));
        CHECK(!with.info().contains("accept_caged_from"));
    };
    for (const char* act : {"allow", "decline", "cancel", "answer", "nudge", "ack"})
        refused("POST", fmt::format("/v1/tasks/heron:m-1/{}", act), {{"text", "x"}, {"always", true}});
    refused("POST", "/v1/sessions/heron/settings", {{"accept_caged_from", {"laptop/w1"}}});
    refused("PATCH", "/v1/sessions/heron", {{"accept_caged", true}});
    CHECK(with.send_as("GET", "w1", "/v1/tasks", "").status == 403);
    for (const char* method : {"CancelTask", "SubscribeToTask", "ListTasks"})
        CHECK(with.call(method, {{"id", "heron:m-1"}}, "w1")["code"] == -32004);
    CHECK(is_held(with.task_now("heron:m-1")));
    // An empty header is a cage's, too: it names nobody, so nothing is taken of it.
    CHECK(parse_answer(
              with.raw("POST /v1/tasks/heron:m-1/allow HTTP/1.1\r\nHost: localhost\r\nX-Shrooms-Caged:\r\n"
                       "Connection: close\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"))
              .status == 403);
    CHECK(with.post("/v1/tasks/heron:m-1/allow").status == 200); // the owner's word counts
}

TEST_CASE("a caged agent sees its own tasks, as asker or as worker, and no others") {
    task_machine with;
    REQUIRE(with.make().status == 201);
    REQUIRE(with.ask("private", "the owner's own").contains("id"));
    REQUIRE(is_held(with.ask("mine", "x", "w1")));
    CHECK(with.task_now("heron:private", "w1")["code"] == -32001);
    CHECK(with.task_now("heron:mine", "w2")["code"] == -32001);
    CHECK(with.task_now("heron:mine", "w1")["id"] == "heron:mine");
    CHECK(with.task_now("heron:private", "heron")["id"] == "heron:private"); // its worker
    CHECK(with.ask("private", "x", "w1")["code"] == -32602); // the id is not to be guessed by asking, either
    json more = message("in", "and do this, too");
    more["message"]["taskId"] = "heron:private";
    CHECK(with.call("SendMessage", more, "w1")["code"] == -32001);
    CHECK(with.call("AckTask", {{"id", "heron:private"}}, "w1")["code"] == -32001);
}

TEST_CASE("a cage reports on tasks of its own session only") {
    task_machine with;
    REQUIRE(with.make().status == 201);
    REQUIRE(with.ask("m-1", "x").contains("id"));
    REQUIRE(with.becomes("heron:m-1", "WORKING"));
    json report{{"state", "done"}, {"summary", "forged"}, {"session", "heron"}};
    CHECK(with.post_as("w1", "/v1/tasks/heron:m-1", report).status == 403);
    CHECK(with.post("/v1/tasks/heron:m-1", {{"state", "done"}, {"session", "w1"}}).status == 403);
    CHECK(with.post_as("heron", "/v1/tasks/heron:none", report).status == 404);
    CHECK(with.state("heron:m-1") == "TASK_STATE_WORKING");
    CHECK(with.post_as("heron", "/v1/tasks/heron:m-1", {{"state", "finished"}}).status == 409);
    CHECK(with.post_as("heron", "/v1/tasks/heron:m-1", report).status == 200);
    CHECK(with.state("heron:m-1") == "TASK_STATE_COMPLETED");
}

TEST_CASE("a cage that floods fills its own share, and the owner's work goes on") {
    task_machine with;
    REQUIRE(with.make().status == 201);
    for (int i = 0; i < 10; ++i) REQUIRE(is_held(with.ask(fmt::format("f{}", i), "x", "w1")));
    CHECK(with.ask("f10", "x", "w1")["code"] == -32050);
    CHECK(with.ask("own", "own work").contains("id"));
    CHECK(says(with.out(), "own work"));
}
