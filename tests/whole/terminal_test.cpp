// `pinfold run -t` in a real cage: the terminal inside, its size, and what keys do.

#include "support/catch.hpp"
#include "whole/whole_machine.hpp"

namespace pinfold::test {
namespace {

whole_machine& here() {
    static whole_machine machine;
    return machine;
}

cli_terminal open(const char* mode, const std::string& script) {
    return {here().pinfold(), {"-q", "run", mode, "-t", "--", "bash", "--norc", "-c", script}, 31, 97};
}

TEST_CASE("a caged command with -t has a terminal of its own with our size, which follows ours") {
    for (const char* mode : {"--sealed", "--uncaged"}) {
        CAPTURE(mode);
        cli_terminal terminal = open(mode,
                                     "trap 'stty size; seen=1' WINCH; test -t 0 && test -t 1 && tty && stty "
                                     "size; until [ $seen ]; do sleep 0.05; done; read line; echo got $line");
        CHECK(terminal.see("/dev/pts/"));
        CHECK(terminal.see("31 97"));
        CHECK(terminal.is_raw());
        terminal.resize(40, 120);
        CHECK(terminal.see("40 120"));
        terminal.type("word\r");
        CHECK(terminal.see("got word"));
        CHECK(cli::wait(terminal.pid()) == 0);
        CHECK(terminal.is_restored());
    }
}

TEST_CASE("Ctrl-C interrupts what runs in the cage, Ctrl-Z stops it there, and pinfold goes on") {
    for (const char* mode : {"--sealed", "--uncaged"}) {
        CAPTURE(mode);
        cli_terminal terminal = open(mode, "PS1='at-$((1+1))-prompt ' exec bash --norc -i");
        CHECK(terminal.see("at-2-prompt"));
        // What is typed says that it runs before the key comes: no time is waited for.
        terminal.type("sh -c 'echo one-$((40+1)); exec sleep 600'\r");
        CHECK(terminal.see("one-41"));
        terminal.type("\x03");
        CHECK(terminal.see("at-2-prompt"));
        terminal.type("echo status-$?-told\r");
        CHECK(terminal.see("status-130-told"));
        CHECK(terminal.see("at-2-prompt"));
        terminal.type("sh -c 'echo two-$((40+2)); exec sleep 601'\r");
        CHECK(terminal.see("two-42"));
        terminal.type("\x1a");
        CHECK(terminal.see("Stopped"));
        CHECK(terminal.see("at-2-prompt"));
        terminal.type("kill -9 %1\r");
        terminal.type("exit 5\r");
        terminal.type("exit 5\r"); // bash may say first that there are stopped jobs
        CHECK(cli::wait(terminal.pid()) == 5);
        CHECK(terminal.is_restored());
    }
}

TEST_CASE("the terminal is as it was when the command, the agent or pinfold's peer is killed") {
    cli_terminal told = open("--sealed", "echo ready-$((1+1)); sleep 600");
    CHECK(told.see("ready-2"));
    CHECK(told.is_raw());
    ::kill(told.pid(), SIGTERM);
    CHECK(cli::wait(told.pid()) == 128 + SIGTERM);
    CHECK(told.is_restored());

    cli_terminal lost = open("--sealed", "echo ready-$((1+1)); sleep 600");
    CHECK(lost.see("ready-2"));
    here().kill_agent();
    CHECK(cli::wait(lost.pid()) == 125);
    CHECK(lost.is_restored());
    CHECK(eventually([] { return here().cages().empty(); })); // a cage does not outlive its agent
}

TEST_CASE("exec -t opens a second terminal in the same cage") {
    started_cli first(here().pinfold(), {"-q", "run", "--sealed", "--name", "heron", "--", "sh", "-c",
                                         "echo ready; exec sleep 600"});
    REQUIRE(eventually([&] { return first.says("ready"); }));
    cli_terminal second(here().pinfold(),
                        {"-q", "exec", "heron", "-t", "--", "bash", "--norc", "-c",
                         "stty size; cat /proc/sys/kernel/hostname; exit 3"},
                        22, 66);
    CHECK(second.see("22 66"));
    CHECK(second.see("heron"));
    CHECK(cli::wait(second.pid()) == 3);
    CHECK(second.is_restored());
}

} // namespace
} // namespace pinfold::test
