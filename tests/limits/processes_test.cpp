// pids.max: a fork bomb is its own cage's matter.

#include "limits/limited.hpp"
#include "support/agent_fixture.hpp"
#include "support/catch.hpp"

#include <csignal>

namespace pinfold::test {
namespace {

constexpr std::uint32_t most = 48;

cage_kind limited_processes() {
    return sealed().with_limits({.cpu_percent = 100, .processes = most});
}

std::uint64_t refused_forks(const running_cage& cage) {
    return cage.built().group().read_key("pids.events", "max").value_or(0);
}

std::uint64_t processes_of(const running_cage& cage) {
    return cage.built().group().read_number("pids.current").value_or(0);
}

// A bounded piece of work with many processes of its own, and its known result.
std::vector<std::string> honest_work() {
    return {"sh", "-c", "sum=0; for i in $(seq 1 200); do sum=$((sum + $(echo $i))); done; echo $sum"};
}
constexpr const char* result_of_work = "20100\n";

TEST_CASE("a cage has as many processes as it was given and no more") {
    cage_machine& machine = limited_machine();
    const probed forked = machine.run(limited_processes(), forker(200));
    CHECK(forked.status == 0);
    CHECK(std::atoi(forked.output.c_str()) > 0);
    CHECK(std::atoi(forked.output.c_str()) < static_cast<int>(most));
    CHECK(machine.run(limited_processes(), forker(20)).output == "20\n");
    CHECK(machine.run(without_limit(limited_processes(), "pids.max"), forker(200)).output == "200\n");
}

TEST_CASE("a fork bomb stays in its cage: another cage and the machine go on working (B47)") {
    cage_machine& machine = limited_machine();
    const auto bomb = machine.start(limited_processes(), fork_bomb());
    REQUIRE(eventually([&] { return refused_forks(*bomb) > 0; }));
    CHECK(processes_of(*bomb) <= most);

    const auto other = machine.start(limited_processes(), {"sleep", "600"});
    CHECK(other->enter(honest_work()).output == result_of_work);
    CHECK(refused_forks(*other) == 0);
    CHECK(run_command("sh -c '[ $(echo 1) = 1 ]'") == 0);
    CHECK(machine.run(limited_processes(), honest_work()).output ==
          result_of_work); // a new cage can be made, too

    // It went on all the time, and ends when its cage is ended.
    const std::uint64_t before = refused_forks(*bomb);
    CHECK(eventually([&] { return refused_forks(*bomb) > before; }));
    CHECK(processes_of(*bomb) <= most);
    CHECK(bomb->built().destroy());
}

} // namespace
} // namespace pinfold::test
