// Cages with limits, on a machine whose cgroup v2 has the controllers; elsewhere these tests are skipped (tools/vm runs
// them).
#pragma once

#include "cagebreak/cage_machine.hpp"

#include <string>
#include <vector>

namespace pinfold::test {

inline constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;

// Skips where one of memory, cpu, pids is not on cgroup v2: a machine with hybrid cgroups has them on v1.
void need_controllers();

// The machine of cage_machine::here(), with its controllers.
cage_machine& limited_machine();

// The mutation: the cage that is built without this one limit.
[[nodiscard]] cage_kind without_limit(const cage_kind& kind, const std::string& file);

// A Python program that touches so much memory, one page after the other, and then says "held".
[[nodiscard]] std::vector<std::string> memory_hog(std::uint64_t bytes);
// One that forks so many children that sleep, and says how many there were.
[[nodiscard]] std::vector<std::string> forker(int children);
// One that forks as fast as it can, as its children do, and never ends.
[[nodiscard]] std::vector<std::string> fork_bomb();
// Two processes that do nothing but use the CPU.
[[nodiscard]] std::vector<std::string> cpu_hog();

} // namespace pinfold::test
