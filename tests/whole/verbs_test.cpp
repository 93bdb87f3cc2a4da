// ls, exec, inspect, limits, plan, denials, doctor and rm against a real keeper; --json has the shape of docs/api.md.

#include "base/file.hpp"
#include "support/catch.hpp"
#include "whole/whole_machine.hpp"

#include <algorithm>
#include <set>

namespace pinfold::test {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

whole_machine& here() {
    static whole_machine machine;
    return machine;
}

std::set<std::string> keys_of(const json& object) {
    std::set<std::string> keys;
    for (const auto& [key, value] : object.items()) keys.insert(key);
    return keys;
}

// The answer that docs/api.md gives under this heading: its keys are what a program may count on.
json documented(const std::string& heading) {
    const std::string page = read_file(PINFOLD_SOURCE_DIR "/docs/api.md");
    const std::size_t at = page.find("\n## " + heading + "\n");
    REQUIRE(at != std::string::npos);
    const std::size_t begin = page.find("\n{", page.find("```console", at));
    return json::parse(page.substr(begin, page.find("```", begin) - begin));
}

class heron {
public:
    explicit heron(const std::string& script = "echo ready; exec sleep 600",
                   const std::string& name = "heron")
        : cli_(std::in_place, here().pinfold(),
               words{"-q", "run", "--sealed", "--name", name, "--memory", "1g", "--cpus", "1.5", "--pids",
                     "100", "--", "sh", "-c", script}) {
        REQUIRE(eventually([&] { return cli_->says("ready"); }));
    }
    heron(const heron&) = delete;
    heron& operator=(const heron&) = delete;
    ~heron() { // the next test may use its name again
        cli_.reset();
        eventually([] { return here().cages().empty(); });
    }
    started_cli& running() { return *cli_; }

private:
    std::optional<started_cli> cli_;
};

TEST_CASE("ls and inspect tell a cage as the API page says, with what is true of it") {
    heron cage;
    const json list = here().ask({"ls"});
    REQUIRE(list.at("cages").size() == 1);
    const json told = here().ask({"inspect", "heron"});
    CHECK(keys_of(told) == keys_of(documented("GET /v1/cages/NAME")));
    CHECK(keys_of(list.at("cages")[0]) == keys_of(documented("GET /v1/cages").at("cages")[0]));
    CHECK(told.at("name") == "heron");
    CHECK(told.at("mode") == "sealed");
    CHECK(told.at("state") == "running");
    CHECK(told.at("dir") == here().project().native());
    CHECK(told.at("owner") == owner_id);
    CHECK(told.at("adopted") == false);
    CHECK(told.at("limits") == json({{"memory", 1 << 30}, {"cpus", 1.5}, {"pids", 100}}));
    CHECK(told.at("processes") == 2); // pinfold-init and the command
    CHECK(told.at("id_base").get<std::uint32_t>() % 65536 == 0);
    const auto cage_name = told.at("cage").get<std::string>();
    CHECK(here().cages() == words{cage_name});
    CHECK(read_file(here().cgroup_folder() / cage_name / "cgroup.procs")
              .find(std::to_string(told.at("pid").get<pid_t>())) != std::string::npos);
    const cli_result people = here().run({"ls"});
    CHECK_THAT(people.out,
               ContainsSubstring("NAME") && ContainsSubstring("heron") && ContainsSubstring("sealed"));
    CHECK_THAT(here().run({"inspect", "heron"}).out,
               ContainsSubstring("memory 1 GiB, 1.5 CPUs, 100 processes"));
    CHECK(here().run({"inspect", "ibis"}).status == 1);
}

TEST_CASE("exec enters the cage: its name, its root and its policy, with streams and exit code of its own") {
    heron cage;
    const cli_result inside = here().run(
        {"exec", "heron", "--env", "A=b", "--", "sh", "-c",
         "cat; echo $A $PINFOLD_CAGE $(cat /proc/sys/kernel/hostname); exit 3"},
        "in\n");
    CHECK(inside.status == 3);
    CHECK(inside.out == "in\nb heron heron\n");
    here().net().reset();
    const std::string knock = fmt::format("exec 3<>/dev/tcp/{}/{} && echo 16 bytes of it >&3", forbidden,
                                          forbidden_port);
    CHECK(here().run({"exec", "heron", "--", "bash", "-c", knock}).status != 0);
    CHECK(here().at_target() == nothing);
    CHECK(here().run({"run", "--caged", "--", "bash", "-c", knock}).status == 0); // the twin
    CHECK(here().at_target().bytes > 0);
    CHECK(here().run({"exec", "heron", "--", "/no/such"}).status == 127);
    CHECK(here().run({"exec", "ibis", "--", "true"}).status == 125);
    CHECK(here().run({"exec", "heron", "--", "sh", "-c", "kill -USR1 $$"}).status == 128 + SIGUSR1);
}

TEST_CASE("limits of a running cage change, plan makes nothing, rm ends and is told") {
    heron cage;
    CHECK(here().ask({"limits", "heron", "--pids", "64"}) ==
          json({{"memory", 1 << 30}, {"cpus", 1.5}, {"pids", 64}}));
    CHECK(here().ask({"inspect", "heron"}).at("limits").at("pids") == 64);
    const auto before = here().census();
    const json plan = here().ask({"plan", "--sealed", "--", "true"});
    CHECK(keys_of(plan) == keys_of(documented("POST /v1/plan")));
    const auto steps = plan.at("steps").get<words>();
    const auto at = [&](const char* text) {
        return std::ranges::find_if(steps,
                                    [&](const auto& each) { return each.find(text) != std::string::npos; });
    };
    CHECK(at("cgroup") == steps.begin());
    CHECK(at("guard") != steps.end());
    CHECK(at("guard") < at("child")); // no instruction runs unguarded
    CHECK(here().differs_from(before) == "");
    CHECK(here().ask({"rm", "heron"}) == json({{"removed", {"heron"}}}));
    CHECK(cage.running().wait() == 128 + SIGKILL);
    CHECK(here().run({"rm", "heron"}).status == 1);
    CHECK(here().ask({"ls"}) == json({{"cages", json::array()}}));
}

TEST_CASE("run --json tells its end on standard error as the exit frame has it") {
    const cli_result result = here().pinfold().run(
        {"--json", "run", "--sealed", "--name", "ibis", "--", "sh", "-c", "exit 9"});
    CHECK(result.status == 9);
    const json end = json::parse(result.err);
    for (const char* key :
         {"status", "memory_kill", "memory_peak", "memory_limit", "denials", "keeper_lost", "name"})
        CHECK(end.contains(key));
    CHECK(end.at("status") == 9);
    CHECK(end.at("name") == "ibis");
    CHECK(end.at("denials") == 0);
    CHECK(end.at("memory_limit") == 4LL << 30);
}

TEST_CASE(
    "a refusal in a sealed cage is told with cage, process, act, target and rule, and nothing arrived") {
    here().net().reset();
    heron cage("echo ready; read go; "
               "python3 -c 'import socket\ntry: socket.create_connection((\"192.168.1.10\", 9000), 5)\n"
               "except PermissionError: print(\"refused\", flush=True)\nimport time; time.sleep(600)' & "
               "echo pid $!; wait",
               "egret");
    started_cli follower(here().pinfold(), {"--json", "denials", "-f", "egret"});
    cage.running().type("go\n");
    REQUIRE(eventually([&] { return cage.running().says("refused"); }));
    REQUIRE(eventually([&] { return count_lines(here().run({"denials", "egret"}).out) > 0; }));
    CHECK(here().at_target() == nothing);

    const json told = here().ask({"denials", "egret"});
    json expected = documented("GET /v1/denials");
    CHECK(keys_of(told) == keys_of(expected));
    CHECK(told.at("cage") == "egret");
    CHECK(told.at("comm") == "python3");
    CHECK(told.at("act") == "connect");
    CHECK(told.at("protocol") == "tcp");
    CHECK(told.at("address") == forbidden);
    CHECK(told.at("port") == forbidden_port);
    CHECK(told.at("rule") == "private");
    const auto pid = told.at("pid").get<pid_t>(); // in the machine's numbers: it is the one that is there
    CHECK(read_file(fmt::format("/proc/{}/comm", pid)) == "python3\n");
    CHECK(read_file(fmt::format("/proc/{}/cgroup", pid)).find(here().cages().at(0)) != std::string::npos);
    REQUIRE(eventually([&] { return count_lines(follower.out()) > 0; }));
    CHECK(json::parse(follower.out()) == told); // -f said it when it happened
    CHECK(here().ask({"inspect", "egret"}).at("denials") == 1);
    CHECK_THAT(here().run({"denials", "egret"}).out,
               ContainsSubstring("python3") && ContainsSubstring("connect tcp 192.168.1.10:9000"));

    // The twin: the same act in a caged cage arrives, and is no denial.
    const cli_result twin = here().run(
        {"run", "--caged", "--name", "ibis", "--", "python3", "-c",
         "import socket; s = socket.create_connection(('192.168.1.10', 9000), 5); "
         "s.send(b'x' * 16); print(len(s.recv(16)))"});
    CHECK(twin.out == "16\n");
    CHECK(here().at_target().bytes >= 16);
    CHECK(here().run({"denials", "ibis"}).out.empty());
}

TEST_CASE("run says at its end how many acts were refused") {
    const cli_result told = here().pinfold().run(
        {"run", "--sealed", "--name", "siskin", "--", "bash", "-c",
         "for i in 1 2 3; do (exec 3<>/dev/tcp/192.168.1.10/9000); done 2>/dev/null; exit 4"});
    CHECK(told.status == 4);
    CHECK_THAT(told.err, ContainsSubstring("3 acts were refused: tcp 192.168.1.10:9000 (private) 3 times"));
}

TEST_CASE("doctor tries what this machine enforces and finds nothing open") {
    const auto before = here().census();
    const json told = here().ask({"doctor"});
    CHECK(keys_of(told) == keys_of(documented("GET /v1/doctor")));
    CHECK(told.at("ok") == true);
    CHECK(told.at("problems").empty());
    CHECK(told.at("denials").at("sealed").get<int>() > 0);
    bool refused_connect = false;
    for (const json& each : told.at("probes"))
        refused_connect = refused_connect || (each.at("mode") == "sealed" && each.at("refused") == true);
    CHECK(refused_connect);
    CHECK(here().differs_from(before) == "");
}

} // namespace
} // namespace pinfold::test
