// The verbs of tasks and files, with the real pinfold.
#include "support/catch.hpp"
#include "support/cli_process.hpp"
#include "task_machine.hpp"

using namespace pinfold;
using namespace pinfold::test;

TEST_CASE("the owner lists, allows, declines and answers tasks from the command line") {
    task_machine with;
    const cli pinfold(with.directory() / "run/api.sock");
    REQUIRE(with.make().status == 201);
    for (const char* each : {"a", "b", "c", "d"})
        REQUIRE(with.ask(each, std::string("look at ") + each, "w1").contains("id"));
    const cli_result listed = pinfold.run({"tasks"});
    CHECK(listed.status == 0);
    CHECK_THAT(listed.out,
               Catch::Matchers::ContainsSubstring("heron:a  held   this machine (laptop/w1, in a cage)"));
    CHECK_THAT(listed.out, Catch::Matchers::ContainsSubstring("look at b"));
    CHECK(pinfold.run({"tasks", "allow", "heron:a"}).out == "heron:a may begin\n");
    REQUIRE(says(with.out(), "look at a"));
    CHECK(pinfold.run({"tasks", "decline", "laptop/heron:b", "not", "today"}).status == 0);
    CHECK(with.task_now("heron:b")["status"]["message"]["parts"][0]["text"] == "not today");
    CHECK(pinfold.run({"tasks", "allow-always", "heron:c"}).status == 0);
    CHECK(with.info()["accept_caged_from"] == json::array({"laptop/w1"}));
    CHECK(with.task_now("heron:d")["metadata"]["shrooms/held"] == false);
    REQUIRE(with.becomes("heron:a", "WORKING"));
    CHECK(with.report("heron:a", "blocked", "which?").status == 200);
    CHECK(pinfold.run({"tasks", "answer", "heron:a", "the", "left", "one"}).status == 0);
    CHECK(pinfold.run({"tasks", "cancel", "heron:d", "--json"}).out.find("TASK_STATE_CANCELED") !=
          std::string::npos);
    CHECK(pinfold.run({"tasks", "ack", "heron:d"}).status == 0);
    CHECK(pinfold.run({"tasks"}).out.find("heron:d") == std::string::npos); // over, and acknowledged
    CHECK(pinfold.run({"tasks", "-a", "heron"}).out.find("heron:d") != std::string::npos);
    for (const std::vector<std::string>& wrong : {std::vector<std::string>{"tasks", "allow"},
                                                  {"tasks", "allow", "x"},
                                                  {"tasks", "burn", "heron:a"},
                                                  {"tasks", "answer", "heron:a"},
                                                  {"tasks", "allow", "heron:a", "more"}})
        CHECK(pinfold.run(wrong).status == 2);
    CHECK(pinfold.run({"tasks", "allow", "heron:none"}).status == 1);
}

TEST_CASE("the owner lets a sender send files, and takes it back, from the command line") {
    task_machine with;
    const cli pinfold(with.directory() / "run/api.sock");
    REQUIRE(with.make().status == 201);
    const auto drop = [&] {
        return with
            .send_as("POST", "", "/v1/sessions/heron/drop?name=a.txt&tell=0", "x", "application/octet-stream",
                     "X-Shrooms-From-Session: w1\r\n")
            .status;
    };
    CHECK(drop() == 403);
    CHECK_THAT(pinfold.run({"files", "heron"}).out,
               Catch::Matchers::ContainsSubstring(
                   "refused a.txt from laptop/w1: 'pinfold files allow heron laptop/w1'"));
    CHECK(pinfold.run({"files", "allow", "heron", "laptop/w1"}).status == 0);
    CHECK(drop() == 201);
    CHECK_THAT(pinfold.run({"files", "heron"}).out,
               Catch::Matchers::ContainsSubstring("from-laptop_w1/a.txt"));
    CHECK(pinfold.run({"files", "deny", "heron", "laptop/w1"}).status == 0);
    CHECK(drop() == 403);
    CHECK(pinfold.run({"files"}).status == 2);
    CHECK(pinfold.run({"files", "allow", "heron"}).status == 2);
    CHECK(pinfold.run({"files", "allow", "heron", "everybody"}).status == 1);
}
