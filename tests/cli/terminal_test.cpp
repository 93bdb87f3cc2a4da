#include "support/catch.hpp"
#include "support/cli_process.hpp"
#include "support/fake_keeper.hpp"

using namespace pinfold::test;
using words = std::vector<std::string>;

namespace {

struct world {
    agent_fixture agent;
    fake_keeper keeper{agent.keeper_socket()};
    cli pinfold{agent.api()};

    cli_terminal open(const char* mode, const std::string& script) {
        return {pinfold,
                {"-q", "run", mode, "-t", "--dir", (agent.directory() / "home").native(), "--", "bash",
                 "--norc", "-c", script},
                31,
                97};
    }
};

} // namespace

TEST_CASE("a program with -t has a terminal of its own with our size, which follows ours") {
    world here;
    for (const char* mode : {"--caged", "--uncaged"}) {
        cli_terminal terminal = here.open(
            mode, "test -t 0 && test -t 1 && stty size; trap 'stty size; seen=1' WINCH; until [ $seen ]; do "
                  "sleep 0.05; done; read line; echo got $line");
        CHECK(terminal.see("31 97"));
        CHECK(terminal.is_raw());
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        terminal.resize(40, 120);
        CHECK(terminal.see("40 120"));
        terminal.type("word\r");
        CHECK(terminal.see("got word"));
        CHECK(cli::wait(terminal.pid()) == 0);
        CHECK(terminal.is_restored());
    }
}

TEST_CASE("Ctrl-C interrupts what runs inside and not pinfold; Ctrl-Z stops it there") {
    world here;
    for (const char* mode : {"--caged", "--uncaged"}) {
        cli_terminal terminal = here.open(mode, "exec bash --norc -i");
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        terminal.type("sleep 600; echo status $?\r");
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        terminal.type("\x03");
        terminal.type("echo next $((40+2))\r");
        CHECK(terminal.see("next 42"));
        terminal.type("sleep 601\r");
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        terminal.type("\x1a");
        CHECK(terminal.see("Stopped"));
        terminal.type("kill %1; exit 5\r");
        terminal.see("exit");
        terminal.type("exit 5\r"); // bash says once that there are stopped jobs
        CHECK(cli::wait(terminal.pid()) == 5);
        CHECK(terminal.is_restored());
    }
}

TEST_CASE("the terminal is as it was after SIGTERM, and when the agent dies") {
    world here;
    cli_terminal told = here.open("--uncaged", "echo ready; sleep 600");
    CHECK(told.see("ready"));
    CHECK(told.is_raw());
    ::kill(told.pid(), SIGTERM);
    CHECK(cli::wait(told.pid()) == 128 + SIGTERM);
    CHECK(told.is_restored());

    cli_terminal lost = here.open("--uncaged", "echo ready; sleep 600");
    CHECK(lost.see("ready"));
    here.agent.stop(SIGKILL);
    CHECK(cli::wait(lost.pid()) == 125);
    CHECK(lost.is_restored());
}
