// Agent and CLI are killed at the system calls of making a cage, one after the other. The cage is guarded or gone, what it
// must not reach got nothing, and the next `pinfold run` works.

#include "support/catch.hpp"
#include "support/tracer.hpp"
#include "whole/whole_machine.hpp"

#include <sys/syscall.h>
#include <tuple>

namespace pinfold::test {
namespace {

// The twin of every zero: the same program in a caged cage does reach it.
void check_reachable(whole_machine& machine) {
    started_cli twin(machine.pinfold(), machine.in_cage("twin", trying_script(), "--caged"));
    CHECK(eventually([&] { return twin.says("reached"); }, std::chrono::seconds(20)));
    CHECK(machine.at_target().bytes > 0);
}

void check_gone(whole_machine& machine) {
    CHECK(machine.unguarded().empty());
    CHECK(eventually([&] { return machine.cages().empty(); }, std::chrono::seconds(20)));
}

// Whether a cage of another agent's than the dead one runs.
bool outlives(whole_machine& machine, const started_cli& one, pid_t dead) {
    bool other = false;
    eventually(
        [&] {
            if (!one.running()) return true;
            const pid_t agent = machine.agent();
            other = agent != 0 && agent != dead && one.says("ready");
            return other;
        },
        std::chrono::seconds(30));
    return other;
}

TEST_CASE("an agent killed at any system call of making a cage takes it along, never its guards before it") {
    whole_machine machine;
    machine.next_range();
    const auto before = machine.census();
    const std::uint32_t range = machine.next_range();
    machine.net().reset();
    int kills = 0, told = 0;
    for (int calls = 1;; calls += 3, ++kills) {
        REQUIRE(machine.run({"ls"}).status == 0); // an agent that is connected
        const pid_t agent = machine.agent();
        bool killed = false;
        std::optional<started_cli> heron;
        {
            tracer traced(agent);
            heron.emplace(machine.pinfold(), machine.in_cage("heron", trying_script()));
            killed = traced.step(calls, [&] { return heron->says("ready"); });
            ::kill(agent, SIGKILL);
        }
        CAPTURE(calls, heron->err());
        ::waitpid(agent, nullptr, 0);
        if (outlives(machine, *heron, agent)) { // it had not found that agent yet, and started the next one
            CHECK(machine.run({"rm", "heron"}).status == 0);
            CHECK(heron->wait() == 128 + SIGKILL);
        } else {
            CHECK(heron->wait() == 125);
            CHECK(count_lines(heron->err()) == 1);
            ++told;
        }
        CHECK_FALSE(heron->says("reached"));
        check_gone(machine);
        if (!killed) break;
    }
    CHECK(kills > 10); // the walk did walk
    CHECK(told > 10);
    CHECK(machine.at_target() == nothing);
    CHECK(machine.next_range() == range);
    CHECK(machine.differs_from(before) == "");
    check_reachable(machine);
}

// Starts `pinfold run`, takes hold of it before its first instruction, and kills it `calls` system calls after it has
// begun to look for the agent.
struct killed_cli {
    killed_cli(whole_machine& machine, int calls) {
        std::array<int, 2> gate{};
        check(::pipe2(gate.data(), O_CLOEXEC), "make a gate");
        const unique_fd closed(gate[0]);
        unique_fd opener(gate[1]);
        cli held = machine.pinfold();
        held.before = [&] {
            char byte = 0;
            std::ignore = ::read(closed.get(), &byte, 1);
        };
        heron.emplace(held, machine.in_cage("heron", trying_script()));
        tracer traced(heron->pid());
        check(::write(opener.get(), "x", 1), "open the gate");
        walked = traced.run_to(SYS_socket) && traced.step(calls, [&] { return heron->says("ready"); });
        heron->kill(SIGKILL);
    }
    std::optional<started_cli> heron;
    bool walked = false;
};

TEST_CASE("a CLI killed at any system call of making a cage takes the cage along") {
    whole_machine machine;
    machine.next_range();
    const auto before = machine.census();
    const std::uint32_t range = machine.next_range();
    machine.net().reset();
    int kills = 0;
    for (int calls = 1;; calls += 2, ++kills) {
        killed_cli one(machine, calls);
        CAPTURE(calls);
        CHECK(one.heron->wait() == 128 + SIGKILL);
        CHECK_FALSE(one.heron->says("reached"));
        check_gone(machine);
        if (!one.walked) break;
    }
    CHECK(kills > 5);
    CHECK(machine.at_target() == nothing);
    CHECK(machine.next_range() == range);
    CHECK(machine.differs_from(before) == "");
    check_reachable(machine);
}

TEST_CASE("a CLI killed at any system call of starting the agent leaves one that works, or none") {
    whole_machine machine;
    machine.next_range();
    const auto before = machine.census();
    machine.net().reset();
    int kills = 0;
    for (int calls = 1;; calls += 7, ++kills) {
        machine.kill_agent();
        killed_cli one(machine, calls);
        CAPTURE(calls);
        CHECK(one.heron->wait() == 128 + SIGKILL);
        check_gone(machine);
        CHECK(machine.run({"run", "--sealed", "--", "echo", "works"}).out == "works\n");
        if (!one.walked) break;
    }
    CHECK(kills > 3);
    CHECK(machine.at_target() == nothing);
    CHECK(machine.differs_from(before) == "");
}

} // namespace
} // namespace pinfold::test
