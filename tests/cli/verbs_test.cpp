#include "support/catch.hpp"
#include "support/cli_process.hpp"
#include "support/fake_keeper.hpp"

#include <iterator>
#include <nlohmann/json.hpp>

using namespace pinfold::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

struct world {
    agent_fixture agent;
    fake_keeper keeper{agent.keeper_socket()};
    cli pinfold{agent.api()};
    stdio_peer heron{agent.api(), "/v1/cages",
                     R"({"name":"heron","mode":"sealed","dir":"/var/tmp","argv":["sleep","600"]})"};
    world() { heron.wait_for(PINFOLD_FRAME_STARTED); }

    json json_of(std::vector<std::string> arguments, int status = 0) {
        arguments.insert(arguments.begin(), "--json");
        const cli_result result = pinfold.run(arguments);
        CHECK(result.status == status);
        INFO(result.out << result.err);
        return json::parse(result.out, nullptr, false);
    }
};

} // namespace

TEST_CASE("every verb prints for people, and with --json the documented shape") {
    world here;
    CHECK_THAT(here.pinfold.run({"-q", "ls"}).out, ContainsSubstring("NAME") && ContainsSubstring("heron"));
    CHECK(here.json_of({"ls"}).at("cages").at(0).at("name") == "heron");
    CHECK_THAT(here.pinfold.run({"-q", "inspect", "heron"}).out,
               ContainsSubstring("memory 4 GiB, 2 CPUs, 2048 processes"));
    CHECK(here.json_of({"inspect", "heron"}).at("mode") == "sealed");
    CHECK_THAT(here.pinfold.run({"-q", "limits", "heron", "--memory", "1g"}).out,
               ContainsSubstring("memory 1 GiB"));
    CHECK(here.json_of({"limits", "heron", "--cpus", "0.5"}) ==
          json({{"memory", 1 << 30}, {"cpus", 0.5}, {"pids", 2048}}));
    CHECK(here.json_of({"limits", "heron"}).at("cpus") == 0.5);
    CHECK_THAT(
        here.pinfold.run({"-q", "plan", "--sealed", "--name", "ibis", "--dir", "/var/tmp", "--", "true"}).out,
        ContainsSubstring("  1 make the cgroup of ibis\n  2 "));
    CHECK(here.json_of({"plan", "--dir", "/var/tmp", "--", "true"}).at("steps").size() == 2);
    CHECK_THAT(here.pinfold.run({"-q", "doctor"}).out,
               ContainsSubstring("this machine enforces") && ContainsSubstring("kernel"));
    CHECK(here.json_of({"doctor"}).at("ok") == true);
    CHECK(here.json_of({"version"}).at("agent").at("pid") == here.agent.pid());
    CHECK(here.json_of({"rm", "heron"}) == json({{"removed", {"heron"}}}));
    CHECK(here.pinfold.run({"-q", "rm", "heron"}).status == 1);
    CHECK(here.pinfold.run({"help"}).status == 0);
    CHECK_THAT(here.pinfold.run({"run", "--help"}).out, ContainsSubstring("--sealed"));
    CHECK_THAT(here.pinfold.run({"help", "exec"}).out, ContainsSubstring("pinfold exec NAME"));
}

TEST_CASE("exec runs beside the first program, with its own exit code") {
    world here;
    const cli_result inside = here.pinfold.run(
        {"-q", "exec", "heron", "--env", "A=b", "--", "sh", "-c", "cat; echo $A $PINFOLD_CAGE; exit 3"},
        "in\n");
    CHECK(inside.status == 3);
    CHECK(inside.out == "in\nb heron\n");
}

TEST_CASE("control characters from a cage never reach the owner's terminal") {
    world here;
    pinfold_denial what{};
    what.cage = here.keeper.last_cage;
    what.act = PINFOLD_ACT_CONNECT;
    what.rule = PINFOLD_RULE_PRIVATE;
    std::strncpy(what.comm, "x\x1b]0;evil\x07\xc2\x9b", sizeof what.comm - 1);
    here.keeper.deny(what);
    CHECK(eventually([&] { return !here.pinfold.run({"-q", "denials"}).out.empty(); }));
    const std::string shown = here.pinfold.run({"-q", "denials", "heron"}).out;
    CHECK_THAT(shown, ContainsSubstring("x?]0;evil"));
    CHECK(shown.find('\x1b') == std::string::npos);
    CHECK(shown.find('\xc2') == std::string::npos);
}

TEST_CASE("an agent is started where none runs, as the owner and with nothing of our environment") {
    scratch_directory home;
    std::filesystem::create_directory(home.path() / "run");
    ::chmod((home.path() / "run").c_str(), 0700);
    cli pinfold{{}};
    pinfold.environment = {"PATH=/usr/bin:/bin",
                           "HOME=" + home.path().native(),
                           "XDG_RUNTIME_DIR=" + (home.path() / "run").native(),
                           "XDG_STATE_HOME=" + (home.path() / "state").native(),
                           "SECRET=hidden",
                           "PINFOLD_KEEPER=/nonexistent/keeper"};
    CHECK(json::parse(pinfold.run({"version", "--json"}).out).at("agent").is_null());
    const cli_result first = pinfold.run({"-q", "run", "--uncaged", "--", "echo", "hello"});
    CHECK(first.out == "hello\n");
    const json version = json::parse(pinfold.run({"version", "--json"}).out);
    REQUIRE(version.at("agent").is_object());
    CHECK(version.at("agent").at("keeper").at("socket") == "/nonexistent/keeper");
    const pid_t agent = version.at("agent").at("pid");
    std::ifstream environment("/proc/" + std::to_string(agent) + "/environ");
    const std::string seen{std::istreambuf_iterator<char>(environment), {}};
    CHECK(seen.find("SECRET") == std::string::npos);
    CHECK(::getsid(agent) == agent);
    ::kill(agent, SIGTERM);
    CHECK(eventually([&] { return ::kill(agent, 0) != 0; }));

    // What keeps it from starting is told, with the log's last line.
    ::chmod((home.path() / "run/pinfold").c_str(), 0755);
    const cli_result failed = pinfold.run({"-q", "run", "--uncaged", "--", "true"});
    CHECK(failed.status == 125);
    CHECK_THAT(failed.err,
               ContainsSubstring("could not be started") && ContainsSubstring("open to other users"));
}

TEST_CASE("root can name an owner, whose agent it is then; nobody else can") {
    if (::geteuid() != 0) SKIP("root, to be another user");
    scratch_directory place;
    ::chmod(place.path().c_str(), 0755);
    const std::filesystem::path run = place.path() / "run";
    std::filesystem::create_directory(run);
    cli pinfold{run / "p/api.sock"};
    pinfold.environment.emplace_back("PINFOLD_KEEPER=/nonexistent/keeper");
    // nobody's home does not exist, so its agent has no place for a log: that is what must be said.
    const cli_result homeless = pinfold.run({"run", "--owner", "nobody", "--uncaged", "--", "true"});
    CHECK(homeless.status == 125);
    CHECK(homeless.err.find("the owner is root") == std::string::npos);
    CHECK_THAT(homeless.err, ContainsSubstring("/nonexistent"));

    pinfold.environment.push_back("XDG_STATE_HOME=" + place.path().native());
    CHECK_THAT(pinfold.run({"run", "--uncaged", "--", "true"}).err, ContainsSubstring("the owner is root"));
    const json version = json::parse(pinfold.run({"version", "--json"}).out);
    REQUIRE(version.at("agent").is_object());
    // Root's agent is not taken for somebody else's: commands and environment go to the owner's only.
    const cli_result mistaken = pinfold.run({"ls", "--owner", "nobody"});
    CHECK(mistaken.status == 1);
    CHECK_THAT(mistaken.err, ContainsSubstring("runs as user 0"));
    ::kill(version.at("agent").at("pid").get<pid_t>(), SIGTERM);
}
