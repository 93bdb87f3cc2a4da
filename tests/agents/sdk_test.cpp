// The public SDKs of A2A and MCP drive the agents: one as a client on another machine, one in a cage.
#include "agents/two_machines.hpp"
#include "support/catch.hpp"

#include <iterator>

using namespace pinfold;
using namespace pinfold::test;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

TEST_CASE(
    "the public A2A SDK sees the cards, asks, waits, follows, answers, cancels and lists over the mesh") {
    const std::string modules = sdk_modules();
    two_machines with;
    with.peer().make_worker("rev");
    const std::string out = with.run({"/usr/bin/node", PINFOLD_SOURCE_DIR "/tests/agents/a2a_client.js",
                                      modules, fmt::format("http://[{}]:7387", peer_address), "rev"});
    INFO(out << with.peer().log());
    const json said = json::parse(out, nullptr, false);
    REQUIRE(said.is_object());
    CHECK(said.value("error", "") == "");
    CHECK(said["machine"] == json{{"name", "pi5"}, {"skills", json::array({"rev"})}, {"streaming", true}});
    CHECK(said["card"] == json{{"name", "pi5/rev"},
                               {"url", fmt::format("http://[{}]:7387/a2a/rev", peer_address)},
                               {"version", "1.0"}});
    CHECK(said["at_once"]["id"] == "rev:m-1");
    CHECK(said["at_once"]["state"] == "TASK_STATE_SUBMITTED");
    CHECK(said["at_once"]["asked"] == "DONE the first result");
    CHECK(said["got"] ==
          json{{"id", "rev:m-1"}, {"artifact", "the first result"}, {"from", "laptop (laptop/sdk)"}});
    CHECK(said["waited"] == json{{"state", "TASK_STATE_COMPLETED"}, {"artifact", "the second result"}});

    const json& streamed = said["streamed"];
    REQUIRE(streamed.size() >= 2);
    CHECK(streamed.front()[0] == "task");
    CHECK(streamed.back() == json::array({"statusUpdate", "TASK_STATE_COMPLETED"}));
    CHECK(said["blocked"] == json{{"state", "TASK_STATE_INPUT_REQUIRED"}, {"question", "which one?"}});
    CHECK(said["answered"] == json{{"state", "TASK_STATE_COMPLETED"},
                                   {"asked", json::array({"BLOCK which one?", "DONE that one"})}});

    CHECK(said["canceled"]["id"] == true);
    CHECK(said["canceled"]["state"] == "TASK_STATE_CANCELED");
    CHECK(said["canceled"]["followed"].front() == json::array({"task", "TASK_STATE_WORKING"}));
    CHECK(said["canceled"]["followed"].back() == json::array({"statusUpdate", "TASK_STATE_CANCELED"}));
    CHECK_THAT(said["twice"].get<std::string>(), ContainsSubstring("TaskNotCancelableError"));
    CHECK_THAT(said["unknown"].get<std::string>(), ContainsSubstring("TaskNotFoundError"));
    CHECK(said["empty"] != "no failure");

    CHECK(said["list"]["total"] == 5);
    CHECK(said["list"]["ids"].size() == 5);
    CHECK(said["list"]["next"] == "");
    CHECK(said["pages"]["total"] == 4);
    CHECK(said["pages"]["first"].size() == 3);
    CHECK(said["pages"]["rest"] == json::array({"rev:m-1"})); // the newest came first
    CHECK(said["pages"]["end"] == "");
    CHECK(said["short"] == 0);
}

TEST_CASE("the public MCP SDK in a cage lists and uses each tool, and reports on no task but its own") {
    const std::string modules = sdk_modules();
    two_machines with;
    with.peer().make_worker("rev",
                            {{"accept_caged", true}, {"accept_files_from", json::array({"laptop/heron"})}});
    REQUIRE(run_command(
                fmt::format("cp -r {0} {1}/tests/agents/mcp_client.js {2} && chmod -R a+rX {2}/node_modules",
                            modules, PINFOLD_SOURCE_DIR, with.project().native())) == 0);
    std::ofstream(with.project() / "plan.txt") << "what I found";
    const std::string project = with.project().native();
    with.make("heron", {"/usr/bin/node", project + "/mcp_client.js", project + "/node_modules", "pi5/rev",
                        project + "/plan.txt"});
    // The task comes from the other machine, by its agent's endpoint here.
    const json ask{{"jsonrpc", "2.0"},
                   {"id", 1},
                   {"method", "SendMessage"},
                   {"params",
                    {{"message",
                      {{"messageId", "t-1"},
                       {"role", "ROLE_USER"},
                       {"parts", json::array({{{"text", "use them"}}})}}}}}};
    REQUIRE(with.api().post("/a2a/heron", ask).body["result"]["task"]["id"] == "heron:t-1");
    REQUIRE(eventually([&] { return with.said_by("heron").starts_with("{"); }, std::chrono::seconds(60)));
    const json said = json::parse(with.said_by("heron"), nullptr, false);
    INFO(said.dump(1) << with.log() << with.peer().log());
    CHECK(said.value("error", "") == "");
    CHECK(said["server"]["name"] == "shrooms");
    CHECK(said["tools"] ==
          json::array({"list_agents", "ask_agent", "task_status", "task_update", "send_file", "task_ack"}));
    CHECK_THAT(said["agents"]["text"].get<std::string>(), ContainsSubstring("laptop/heron\t"));
    CHECK_THAT(said["agents"]["text"].get<std::string>(), ContainsSubstring("pi5/rev\tcommand"));
    const std::string asked = said["asked"]["text"];
    CHECK_THAT(asked, StartsWith("task pi5/rev:cli-") && ContainsSubstring(": completed\n\nall is well"));
    CHECK_THAT(said["status"]["text"].get<std::string>(), ContainsSubstring("all is well"));
    CHECK(said["file"]["error"] == false);
    CHECK(said["acked"]["error"] == false);
    CHECK(said["other"]["error"] == true); // pi5's, and so not its own machine's
    CHECK(said["nobody"]["error"] == true);
    CHECK(said["unknown"]["error"] == true);
    CHECK(said["own"]["error"] == false);

    const json own =
        with.api()
            .post("/a2a",
                  {{"jsonrpc", "2.0"}, {"id", 2}, {"method", "GetTask"}, {"params", {{"id", "heron:t-1"}}}})
            .body["result"]["task"];
    CHECK(own["status"]["state"] == "TASK_STATE_COMPLETED");
    const json listed = with.peer().api().get("/v1/tasks").body["tasks"];
    REQUIRE(listed.size() == 1);
    CHECK(listed[0]["metadata"]["shrooms/from"] == "laptop (laptop/heron, in a cage)");
    CHECK(listed[0]["metadata"]["shrooms/acknowledged"] == true);
    CHECK(listed[0]["metadata"]["shrooms/title"] == "a look");
    const json files = with.peer().api().get("/v1/sessions/rev/drop").body["files"];
    REQUIRE(files.size() == 1);
    CHECK(files[0]["from"] == "laptop/heron");
    std::ifstream file(files[0]["path"].get<std::string>());
    CHECK(std::string{std::istreambuf_iterator<char>(file), {}} == "what I found");
}
