#include "support/catch.hpp"
#include "support/cli_process.hpp"
#include "support/fake_keeper.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

using namespace pinfold::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using words = std::vector<std::string>;

namespace {

struct world {
    agent_fixture agent;
    fake_keeper keeper{agent.keeper_socket()};
    cli pinfold{agent.api()};
    std::filesystem::path project = agent.directory() / "home";

    cli_result run(const char* mode, const words& command, const std::string& input = "", words more = {}) {
        words all{"-q", "run", mode, "--dir", project.native()};
        all.insert(all.end(), more.begin(), more.end());
        all.emplace_back("--");
        all.insert(all.end(), command.begin(), command.end());
        return pinfold.run(all, input);
    }
};

std::size_t lines_of(const std::string& text) {
    return static_cast<std::size_t>(std::ranges::count(text, '\n'));
}

} // namespace

TEST_CASE("run ends with the command's own exit code, and keeps its streams apart") {
    world here;
    for (const char* mode : {"--sealed", "--caged", "--uncaged"}) {
        const cli_result seven = here.run(mode, {"sh", "-c", "echo out; echo err >&2; exit 7"});
        CHECK(seven.status == 7);
        CHECK(seven.out == "out\n");
        CHECK(seven.err == "err\n");
        CHECK(here.run(mode, {"sh", "-c", "kill -TERM $$"}).status == 128 + SIGTERM);
        CHECK(here.run(mode, {"/no/such/program"}).status == 127);
        CHECK(here.run(mode, {"/etc/passwd"}).status == 126);
    }
}

TEST_CASE("what goes in comes out, byte for byte, and the end of input arrives") {
    world here;
    std::string bytes;
    for (int i = 0; i < 3'000'000; ++i) bytes += static_cast<char>((i * 7 + i / 253) & 0xff);
    for (const char* mode : {"--caged", "--uncaged"}) {
        const cli_result back = here.run(mode, {"cat"}, bytes);
        CHECK(back.status == 0);
        CHECK(back.out == bytes);
        CHECK(back.err.empty());
    }
}

TEST_CASE("the project is where the command starts, and options reach the spec") {
    world here;
    const cli_result where = here.run(
        "--sealed", {"pwd"}, "",
        {"--name", "heron", "--memory", "1.5g", "--cpus", "0.5", "--pids", "64", "--image", "small"});
    CHECK(where.out == std::filesystem::canonical(here.project).native() + "\n");
    const pinfold::cage_spec& spec = here.keeper.last_spec;
    CHECK(spec.name == "heron");
    CHECK(spec.mode == pinfold::cage_mode::sealed);
    CHECK(spec.image == "small");
    CHECK(spec.limits ==
          pinfold::limits_spec{.memory_bytes = 1536ULL << 20, .cpu_percent = 50, .processes = 64});
    CHECK(here.pinfold.run({"-q", "run", "--dir", here.project.native(), "true"}).status == 0);
    CHECK(here.keeper.last_spec.mode == pinfold::cage_mode::caged);
}

TEST_CASE("of the environment a cage gets the list, and what --env names") {
    world here;
    here.pinfold.environment.insert(
        here.pinfold.environment.end(),
        {"SECRET=hidden", "LANG=C.UTF-8", "LC_TIME=C", "https_proxy=http://u:p@10.0.0.1:3128"});
    const words wanted{"--env", "GIVEN=yes=no", "-e", "TERM"};
    const cli_result sealed = here.run("--sealed", {"env"}, "", wanted);
    CHECK(sealed.out.find("SECRET") == std::string::npos);
    CHECK(sealed.out.find("proxy") == std::string::npos);
    for (const char* each : {"LANG=C.UTF-8\n", "LC_TIME=C\n", "GIVEN=yes=no\n", "TERM=xterm\n",
                             "HOME=/root\n", "PINFOLD_MODE=sealed\n"})
        CHECK_THAT(sealed.out, ContainsSubstring(each));
    CHECK_THAT(here.run("--caged", {"env"}).out, ContainsSubstring("https_proxy="));
    CHECK_THAT(here.run("--uncaged", {"env"}).out,
               ContainsSubstring("SECRET=hidden\n")); // as if started without us
    CHECK(here.run("--caged", {"env"}, "", {"--env", "NOT_SET_HERE"}).status == 125);
}

TEST_CASE("what is said wrongly is one line and 125, and nothing is made") {
    world here;
    const std::vector<words> wrong{
        {"run"},
        {"run", "--frob", "--", "true"},
        {"run", "--name", std::string(65, 'a'), "--", "true"},
        {"run", "--name", "a/b", "--", "true"},
        {"run", "--sealed", "--uncaged", "--", "true"},
        {"run", "--dir", "/no/such/directory", "--", "true"},
        {"run", "--dir", "/etc/passwd", "--", "true"},
        {"run", "--memory", "lots", "--", "true"},
        {"run", "--memory", "1k", "--", "true"},
        {"run", "--cpus", "0", "--", "true"},
        {"run", "--pids", "-1", "--", "true"},
        {"run", "--image", "../x", "--", "true"},
        {"run", "-t", "--", "true"}, // no terminal here
        {"run", "--owner", "no-such-user-here", "--", "true"},
        {"exec"},
        {"exec", "a/b", "--", "true"},
        {"exec", "nobody", "--", "true"},
    };
    for (const words& each : wrong) {
        words quiet{"-q"};
        quiet.insert(quiet.end(), each.begin(), each.end());
        const cli_result result = here.pinfold.run(quiet);
        INFO(each.back() << " " << result.err);
        CHECK(result.status == 125);
        CHECK(result.out.empty());
        CHECK(lines_of(result.err) == 1);
        CHECK_THAT(result.err, ContainsSubstring("pinfold: "));
    }
    CHECK(here.keeper.makes == 0);
    CHECK(here.pinfold.run({"frob"}).status == 2);
    CHECK(here.pinfold.run({"ls", "--frob"}).status == 2);
    CHECK(json::parse(here.pinfold.run({"--json", "run", "--frob"}).err).contains("error"));
}

TEST_CASE("without a keeper run says so in one line and ends with 125") {
    agent_fixture agent;
    const cli pinfold(agent.api());
    const cli_result result = pinfold.run({"-q", "run", "--dir", agent.directory().native(), "--", "true"});
    CHECK(result.status == 125);
    CHECK(lines_of(result.err) == 1);
    CHECK_THAT(result.err, ContainsSubstring("pinfold-keeper"));
}

TEST_CASE("a memory kill is told as one, and refused acts are counted at the end (B47)") {
    world here;
    here.keeper.memory_kill = true;
    const cli_result killed = here.pinfold.run(
        {"run", "--dir", here.project.native(), "--memory", "64m", "--", "sh", "-c", "kill -9 $$"});
    CHECK(killed.status == 137);
    CHECK_THAT(
        killed.err,
        ContainsSubstring("killed: memory limit 64 MiB reached (peak 11.8 MiB); raise it with --memory"));
    here.keeper.memory_kill = false;

    const unsigned before = here.keeper.makes;
    std::thread refuse([&] {
        eventually([&] { return here.keeper.makes > before; });
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        pinfold_denial what{};
        what.cage = here.keeper.last_cage;
        what.act = PINFOLD_ACT_CONNECT;
        what.rule = PINFOLD_RULE_PRIVATE;
        for (int i = 0; i < 3; ++i) here.keeper.deny(what);
    });
    const cli_result refused = here.pinfold.run(
        {"run", "--name", "heron", "--dir", here.project.native(), "--", "sleep", "1"});
    refuse.join();
    CHECK(refused.status == 0);
    // Not into the stream of a program that did what it was to do; tests/cli/denied_test.cpp has more.
    CHECK(refused.err.find("refused") == std::string::npos);
    CHECK_THAT(here.pinfold.run({"-q", "denials", "heron"}).out, ContainsSubstring("connect"));
}

TEST_CASE("signals are passed on, and a reader that leaves ends what writes") {
    world here;
    const pinfold::unique_fd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
    for (const char* mode : {"--caged", "--uncaged"}) {
        for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
            const std::filesystem::path ready = here.agent.directory() / "ready";
            std::filesystem::remove(ready);
            const std::string script = "trap 'exit 42' INT TERM HUP USR1; touch " + ready.native() +
                                       "; while :; do sleep 0.05; done";
            const pid_t pid = here.pinfold.start(
                {"-q", "run", mode, "--dir", here.project.native(), "--", "sh", "-c", script}, nothing.get(),
                nothing.get(), nothing.get());
            CHECK(eventually([&] { return std::filesystem::exists(ready); }));
            ::kill(pid, number);
            CHECK(cli::wait(pid) == 42);
        }
        std::array<int, 2> pipe{};
        REQUIRE(::pipe2(pipe.data(), O_CLOEXEC) == 0);
        const pid_t yes = here.pinfold.start({"-q", "run", mode, "--dir", here.project.native(), "--", "yes"},
                                             nothing.get(), pipe[1], nothing.get());
        ::close(pipe[1]);
        std::array<char, 1000> some{};
        CHECK(::read(pipe[0], some.data(), some.size()) > 0);
        ::close(pipe[0]);
        CHECK(cli::wait(yes) == 128 + SIGPIPE);
    }
}

TEST_CASE("a killed client takes its cage along") {
    world here;
    const pinfold::unique_fd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
    const pid_t pid = here.pinfold.start(
        {"-q", "run", "--name", "heron", "--dir", here.project.native(), "--", "sleep", "600"}, nothing.get(),
        nothing.get(), nothing.get());
    CHECK(eventually([&] { return here.pinfold.run({"-q", "ls"}).out.find("heron") != std::string::npos; }));
    ::kill(pid, SIGKILL);
    cli::wait(pid);
    CHECK(eventually([&] { return here.pinfold.run({"-q", "ls"}).out.find("heron") == std::string::npos; }));
}
