// A cage whose policy is gone is refused everything, and the owner is told which cage it was.

#include "support/catch.hpp"
#include "whole/whole_machine.hpp"

#include <bpf/bpf.h>
#include <pinfold/policy.h>
#include <sys/stat.h>

namespace pinfold::test {
namespace {

using nlohmann::json;

void erase_policy(whole_machine& machine, const std::string& cage) {
    struct stat group{};
    check(::stat((machine.cgroup_folder() / cage).c_str(), &group), "look at the cgroup of a cage");
    const std::uint64_t id = group.st_ino;
    const pinfold_policy zero{};
    const unique_fd map(bpf_obj_get((machine.pins() / "maps/cage_policy").c_str()));
    check(map.get(), "open the map of policies");
    check(bpf_map_update_elem(map.get(), &id, &zero, BPF_EXIST), "erase a policy");
}

TEST_CASE("a refusal for want of a policy is told with the name of its cage") {
    whole_machine machine;
    const std::string script = fmt::format(R"(
import socket, sys
def act(name, what):
    try:
        what()
        print(name, "ok", flush=True)
    except OSError as error:
        print(name, error.errno, flush=True)
def web():
    s.connect(("{}", 80))
for line in sys.stdin:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM) if line.startswith("first") else s
    act(line.strip(), web)
    act(line.strip() + " socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM))
)",
                                           internet);
    started_cli heron(machine.pinfold(), machine.in_cage("heron", script));
    started_cli other(machine.pinfold(), machine.in_cage("other", script));
    heron.type("first\n");
    REQUIRE(eventually([&] { return heron.says("first ok") && heron.says("first socket ok"); })); // the twin
    erase_policy(machine, machine.ask({"inspect", "heron"}).at("cage").get<std::string>());
    heron.type("second\n");
    REQUIRE(eventually([&] { return heron.says("second 13") && heron.says("second socket 13"); })); // EACCES
    REQUIRE(eventually([&] { return count_lines(machine.run({"denials", "heron"}).out) == 2; }));
    std::istringstream lines(machine.pinfold().run({"--json", "denials", "heron"}).out);
    for (std::string line; std::getline(lines, line);) {
        const json told = json::parse(line);
        CHECK(told.at("cage") == "heron");
        CHECK(told.at("comm") == "python3");
        CHECK(told.at("rule") == "no-policy");
    }
    CHECK(machine.ask({"inspect", "heron"}).at("denials") == 2);
    other.type("first\n"); // nobody else's policy changed
    CHECK(eventually([&] { return other.says("first ok"); }));
    CHECK(machine.run({"denials", "other"}).out.empty());
}

} // namespace
} // namespace pinfold::test
