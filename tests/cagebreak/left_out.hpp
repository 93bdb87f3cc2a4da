// One protection that no cage of this run has (tools/test --mutations): named by the environment, and nowhere in the
// product. What is protected is listed from the product's own types, so nothing new is forgotten.
#pragma once

#include "agent/relay/relay.hpp"
#include "spec/plan.hpp"

#include <cstdint>
#include <filesystem>
#include <linux/filter.h>
#include <string>
#include <sys/types.h>
#include <vector>

namespace pinfold::test::left_out {

// Every protection by the name that PINFOLD_TEST_WITHOUT takes: "step pivot", "guard sockets", "hook connect4",
// "filter not_permitted", "relay private", "relay check", "mount /dev/shm nosuid", "mount /proc/kcore cover". A rule of a guard is "object FILE:…": eBPF objects made
// of changed sources, whose programs replace those of the same names (tools/lib/guard_rules.py makes them).
[[nodiscard]] std::vector<std::string> protections();

// Each does nothing where the environment names no protection of its kind.
void from_plan(std::vector<step>& steps);
void from_filter(std::vector<sock_filter>& filter, cage_mode mode);
[[nodiscard]] destination_check from_relay(destination_check check);
[[nodiscard]] bool is(guard which); // this guard is on no cage
// An attribute of a mount, or what covers a file: of a cage that is built and waits. Its first process, and its project.
void from_mounts(pid_t init, const std::filesystem::path& project);
// The mounts of a process, with what may be left out of each: "/dev/shm nosuid". A project is called PROJECT.
[[nodiscard]] std::vector<std::string> mounts_of(pid_t process, const std::filesystem::path& project);
// After the guards were attached, before the first instruction of the cage.
void from_guards(const std::filesystem::path& pins, std::uint64_t cage);

} // namespace pinfold::test::left_out
