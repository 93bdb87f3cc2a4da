// The verbs of sessions, as somebody types them.
#include "session_fixture.hpp"
#include "support/catch.hpp"
#include "support/cli_process.hpp"

using namespace pinfold;
using namespace pinfold::test;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a session from the command line: made, spoken to, asked back, read, listed and deleted") {
    session_fixture with;
    const cli pinfold(with.agent.api());
    const cli_result made = pinfold.run({"-q", "new", "heron", with.project().native()});
    INFO(made.err);
    REQUIRE(made.status == 0);
    CHECK_THAT(made.out, ContainsSubstring("heron (uncaged, claude)"));
    CHECK(pinfold.run({"-q", "new", "heron", with.project().native()}).status == 1); // the name is taken
    CHECK(pinfold.run({"-q", "new", "../x"}).status == 2);

    const cli_result answer = pinfold.run({"-q", "send", "heron", "good", "morning"});
    INFO(answer.err);
    CHECK(answer.status == 0);
    CHECK_THAT(answer.out, ContainsSubstring("good morning"));
    CHECK(answer.out.find("echo: good morning") ==
          std::string::npos); // it was shown while it came, and not again

    const cli_result asks = pinfold.run({"-q", "send", "heron", "run make"});
    CHECK(asks.status == 3);
    CHECK_THAT(asks.out, ContainsSubstring("pinfold approve heron req-"));
    CHECK_THAT(pinfold.run({"-q", "ls"}).out, ContainsSubstring("waits: Bash"));
    CHECK(pinfold.run({"-q", "move", "heron", "--uncaged"}).status == 1); // not while it waits
    CHECK(pinfold.run({"-q", "approve", "heron"}).status == 0);
    CHECK(with.is("idle"));
    CHECK(pinfold.run({"-q", "approve", "heron"}).status == 1); // it waits for nothing
    CHECK(pinfold.run({"-q", "send", "heron", "run rm"}).status == 3);
    CHECK(pinfold.run({"-q", "deny", "heron", "--message", "not that"}).status == 0);
    CHECK(with.is("idle"));
    const cli_result logs = pinfold.run({"-q", "logs", "heron"});
    for (const char* each : {"good morning", "done", "denied: not that"})
        CHECK_THAT(logs.out, ContainsSubstring(each));
    CHECK(pinfold.run({"--json", "logs", "-n", "2", "heron"}).out.find("\"seq\"") != std::string::npos);

    CHECK(pinfold.run({"-q", "send", "heron", "crash"}).status == 1);
    CHECK(pinfold.run({"-q", "send", "nobody", "x"}).status == 1);
    const cli_result set = pinfold.run(
        {"-q", "set", "heron", "--star", "yes", "--accept-caged-from", "pi5/a,pi5/b"});
    INFO(set.err);
    CHECK(set.status == 0);
    CHECK_THAT(set.out, ContainsSubstring("star               yes\n"));
    CHECK_THAT(set.out, ContainsSubstring("accept-caged-from  pi5/a,pi5/b\n"));
    CHECK_THAT(set.out, ContainsSubstring("meshes             all\n"));
    CHECK(pinfold.run({"-q", "set", "heron", "--star", "maybe"}).status == 2);
    CHECK(pinfold.run({"-q", "set", "heron", "--meshes", "nowhere"}).status == 1);
    CHECK(pinfold.run({"-q", "set", "heron", "--accept-caged-from", ""}).status == 0);
    const json now = with.get("/v1/sessions/heron").body;
    CHECK(now["starred"] == true);
    CHECK_FALSE(now.contains("accept_caged_from"));
    CHECK(pinfold.run({"-q", "limits", "heron"}).status == 1); // uncaged: it has none
    CHECK(pinfold.run({"-q", "rm", "heron"}).status == 0);
    CHECK(with.get("/v1/sessions").body["sessions"].empty());
}

TEST_CASE("what a session says cannot steer the terminal of whoever reads it") {
    session_fixture with;
    const cli pinfold(with.agent.api());
    REQUIRE(
        pinfold.run({"-q", "new", "heron", with.project().native(), "--", "printf", R"(\033]0;owned\007x\n)"})
            .status == 0);
    const cli_result answer = pinfold.run({"-q", "send", "heron"}, "go\n");
    CHECK(answer.status == 0);
    CHECK_THAT(answer.out, ContainsSubstring("?]0;owned?x"));
    CHECK(answer.out.find('\033') == std::string::npos);
}
