// Real Claude Code in a cage asks a session of the other machine by its tools: held, allowed, done, and its file delivered.
#include "agents/two_machines.hpp"
#include "support/catch.hpp"

using namespace pinfold;
using namespace pinfold::test;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string call(const char* tool, const json& input) {
    return fmt::format("CALL mcp__shrooms__{} {}", tool, input.dump());
}

json task_of(const api_client& of) {
    const json tasks = of.get("/v1/tasks").body.value("tasks", json::array());
    return tasks.empty() ? json::object() : tasks[0];
}

} // namespace

TEST_CASE(
    "Claude Code in a cage asks another machine: held, allowed by its owner, done, and its file delivered") {
    peer_machine peer; // frees the port first
    harness_machine with(two_machines::agent_options());
    REQUIRE(with.create({{"cage", json::object()}, {"auto_approve", true}}).status == 201);
    REQUIRE(with.api()
                .post("/v1/sessions/heron/settings", {{"accept_files_from", json::array({"pi5/rev"})}})
                .status == 200);
    peer.make_worker("rev", {{"accept_files_from", json::array({"laptop/heron"})}});

    const std::string agents = with.turn(call("list_agents", json::object()));
    INFO(agents << with.log());
    CHECK_THAT(agents, ContainsSubstring("pi5/rev\tcommand"));

    // Held: its asker sees that it waits, and nothing of it reached the worker.
    const std::string asked = with.turn(
        call("ask_agent", {{"to", "pi5/rev"}, {"text", "FILE what rev found"}, {"title", "look at it"}}));
    INFO(asked << peer.log());
    CHECK_THAT(asked, ContainsSubstring("(held: the owner of that machine has not said yet"));
    const json held = task_of(peer.api());
    const std::string id = held.value("id", "");
    REQUIRE(id.starts_with("rev:cli-"));
    CHECK(held["metadata"]["shrooms/held"] == true);
    CHECK(held["metadata"]["shrooms/from"] == "laptop (laptop/heron, in a cage)");
    CHECK(peer.api().get("/v1/sessions/rev/history").body["history"].empty());
    // It cannot allow itself.
    CHECK_THAT(with.turn("TOOL curl -s --unix-socket $SHROOMS_AGENT_PROXY -d '{}' http://cage/peer/" +
                         std::string(peer_address) + "/v1/tasks/" + id + "/allow"),
               ContainsSubstring("not from a cage"));
    CHECK(task_of(peer.api())["metadata"]["shrooms/held"] == true);

    // Allowed: done, its asker is told by a note and has the file, and reads the result.
    REQUIRE(peer.api().post("/v1/tasks/" + id + "/allow").status == 200);
    CHECK(eventually([&] { return task_of(peer.api())["status"]["state"] == "TASK_STATE_COMPLETED"; },
                     std::chrono::seconds(60)));
    const json files = with.api().get("/v1/sessions/heron/drop").body.value("files", json::array());
    REQUIRE(files.size() == 1);
    CHECK(files[0]["from"] == "pi5/rev");
    const std::string path = files[0]["path"];
    CHECK(eventually(
        [&] {
            return with.api()
                       .get("/v1/sessions/heron/history")
                       .text.find("[shrooms note] Your task pi5/" + id) != std::string::npos;
        },
        std::chrono::seconds(60)));
    CHECK(with.api().is("idle"));
    const std::string status = with.turn(call("task_status", {{"task", "pi5/" + id}}));
    INFO(status);
    CHECK_THAT(status, ContainsSubstring(": completed") && ContainsSubstring("what rev found"));
    const std::string read = with.turn("TOOL cat " + path);
    INFO(read);
    CHECK_THAT(read, ContainsSubstring("the tool said: what rev found"));

    // And the other way: a file of the cage's, and the acknowledgement.
    CHECK_THAT(with.turn("TOOL echo mine > mine.txt; pwd"), ContainsSubstring(with.project().native()));
    const std::string send = call("send_file",
                                  {{"to", "pi5/rev"}, {"path", (with.project() / "mine.txt").native()}});
    CHECK_THAT(with.turn(send),
               ContainsSubstring("takes nothing from caged agents")); // allowed once is not always
    CHECK(peer.api().get("/v1/sessions/rev/drop").body["files"].empty());
    REQUIRE(peer.api()
                .post("/v1/sessions/rev/settings", {{"accept_caged_from", json::array({"laptop/heron"})}})
                .status == 200);
    CHECK_THAT(with.turn(send), ContainsSubstring("sent; kept there at"));
    const json sent = peer.api().get("/v1/sessions/rev/drop").body.value("files", json::array());
    REQUIRE(sent.size() == 1);
    CHECK(sent[0]["from"] == "laptop/heron");
    CHECK_THAT(with.turn(call("task_ack", {{"task", "pi5/" + id}})), ContainsSubstring(": completed"));
    CHECK(task_of(peer.api())["metadata"]["shrooms/acknowledged"] == true);
}
