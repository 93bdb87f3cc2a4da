// `pinfold run` as its owner has it: streams, exit codes, modes, and what the command sees and may.

#include "support/catch.hpp"
#include "whole/whole_machine.hpp"

#include <iterator>
#include <sys/stat.h>

namespace pinfold::test {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

whole_machine& here() {
    static whole_machine machine;
    return machine;
}

cli_result run_in(const char* mode, const words& command, const std::string& input = "") {
    words all{"run", mode, "--"};
    all.insert(all.end(), command.begin(), command.end());
    return here().run(all, input);
}

TEST_CASE("run carries the streams apart, and ends with the command's own exit code or 128 and its signal") {
    for (const char* mode : {"--sealed", "--caged", "--uncaged"}) {
        CAPTURE(mode);
        const cli_result seven = run_in(mode, {"sh", "-c", "cat; echo err >&2; exit 7"}, "from outside\n");
        CHECK(seven.status == 7);
        CHECK(seven.out == "from outside\n");
        CHECK(seven.err == "err\n");
        CHECK(run_in(mode, {"true"}).status == 0);
        CHECK(run_in(mode, {"sh", "-c", "kill -TERM $$"}).status == 128 + SIGTERM);
        CHECK(run_in(mode, {"sh", "-c", "kill -KILL $$"}).status == 128 + SIGKILL);
        CHECK(run_in(mode, {"/no/such/program"}).status == 127);
        CHECK(run_in(mode, {"/etc/passwd"}).status == 126);
    }
}

TEST_CASE("a megabyte goes in and comes out byte for byte") {
    std::string bytes;
    for (int i = 0; i < 1'000'000; ++i) bytes += static_cast<char>((i * 7 + i / 253) & 0xff);
    for (const char* mode : {"--sealed", "--uncaged"}) {
        const cli_result back = run_in(mode, {"cat"}, bytes);
        CHECK(back.status == 0);
        CHECK(back.out == bytes);
        CHECK(back.err.empty());
    }
}

TEST_CASE("a signal to pinfold is the command's, in a cage as outside") {
    const std::string script = "trap 'exit 42' INT TERM HUP USR1; echo ready; while :; do sleep 0.05; done";
    for (const char* mode : {"--sealed", "--uncaged"}) {
        for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
            CAPTURE(mode, number);
            started_cli one(here().pinfold(), {"-q", "run", mode, "--", "sh", "-c", script});
            CHECK(eventually([&] { return one.says("ready"); }));
            one.kill(number);
            CHECK(one.wait() == 42);
        }
    }
}

TEST_CASE("without a mode a command is caged: the LAN is there, this machine's files are not") {
    const cli_result mode = here().run({"run", "--", "sh", "-c", "echo $PINFOLD_MODE; id -u; pwd"});
    CHECK(mode.status == 0);
    CHECK(mode.out == "caged\n0\n" + here().project().native() + "\n");
    const cli_result files = here().run({"run", "--", "ls", "-d", here().home().native() + "/run"});
    CHECK(files.status != 0);
    here().net().reset();
    const cli_result lan = here().run(
        {"run", "--", "bash", "-c",
         fmt::format("exec 3<>/dev/tcp/{}/{}; echo 16 bytes of it >&3; head -c 5 <&3", forbidden,
                     forbidden_port)});
    CHECK(lan.out == "16 by");
    CHECK(here().at_target().bytes > 0);
}

TEST_CASE("a sealed command reaches the internet and by name, and nothing local") {
    here().net().reset();
    const cli_result web = run_in("--sealed", {"curl", "-sS", "-m", "20", "http://example.com/"});
    CHECK(web.status == 0);
    CHECK(web.out == "hello from the internet\n");
    CHECK(here().net().count("internet", "tcp", "", 80).bytes > 0); // at either of its addresses
    const cli_result local = run_in("--sealed",
                                    {"curl", "-sS", "-m", "20", fmt::format("http://{}/", forbidden)});
    CHECK(local.status == 7);
    CHECK(here().at_target() == nothing);
    // The twins: the same word from a caged and from an uncaged command arrives.
    for (const char* mode : {"--caged", "--uncaged"})
        CHECK(run_in(mode, {"curl", "-sS", "-m", "20", fmt::format("http://{}/", forbidden)}).status == 0);
    CHECK(here().at_target().bytes > 0);
}

TEST_CASE("the command is root inside and the owner's in the project, and uncaged it is the owner") {
    CHECK(run_in("--sealed", {"sh", "-c", "id -u; echo made > made-inside"}).out == "0\n");
    struct stat made{};
    REQUIRE(::stat((here().project() / "made-inside").c_str(), &made) == 0);
    CHECK(made.st_uid == owner_id);
    CHECK(made.st_gid == owner_id);
    CHECK(run_in("--uncaged", {"id", "-u"}).out == fmt::format("{}\n", owner_id));
    fs::remove(here().project() / "made-inside");
}

TEST_CASE("the agent that run started is the owner's, without capabilities, and stays") {
    CHECK(run_in("--sealed", {"true"}).status == 0);
    const pid_t first = here().agent();
    REQUIRE(first != 0);
    std::ifstream status(fmt::format("/proc/{}/status", first));
    const std::string text{std::istreambuf_iterator<char>(status), {}};
    CHECK_THAT(text, ContainsSubstring(fmt::format("Uid:\t{0}\t{0}\t{0}\t{0}\n", owner_id)) &&
                         ContainsSubstring("CapEff:\t0000000000000000\n") &&
                         ContainsSubstring("NoNewPrivs:\t1\n"));
    CHECK(run_in("--sealed", {"true"}).status == 0);
    CHECK(here().agent() == first);
    here().kill_agent();
    CHECK(run_in("--sealed", {"true"}).status == 0);
    CHECK(here().agent() != first);
}

TEST_CASE("root runs for another with --owner, and is warned where the owner is root") {
    cli root = here().pinfold();
    root.user.reset();
    here().kill_agent(); // the owner's agent is to be started by root
    const cli_result theirs = root.run(
        {"-q", "run", "--sealed", "--owner", owner_name, "--", "sh", "-c", "echo x > by-root; echo done"});
    CHECK(theirs.err.empty());
    CHECK(theirs.out == "done\n");
    struct stat made{};
    REQUIRE(::stat((here().project() / "by-root").c_str(), &made) == 0);
    CHECK(made.st_uid == owner_id);
    fs::remove(here().project() / "by-root");

    const fs::path place = here().folder() / "root";
    fs::create_directory(place);
    ::chmod(place.c_str(), 0700);
    cli own(place / "api.sock");
    own.environment = here().pinfold().environment;
    own.environment.emplace_back("XDG_STATE_HOME=" + place.native());
    own.directory = place;
    const cli_result warned = own.run({"run", "--sealed", "--", "echo", "done"});
    CHECK(warned.out == "done\n");
    CHECK_THAT(warned.err, ContainsSubstring("the owner is root"));
    const auto version = nlohmann::json::parse(own.run({"version", "--json"}).out);
    ::kill(version.at("agent").at("pid").get<pid_t>(), SIGTERM);
    CHECK(here().run({"run", "--owner", owner_name, "--", "true"}).status == 125); // root's word only
}

} // namespace
} // namespace pinfold::test
