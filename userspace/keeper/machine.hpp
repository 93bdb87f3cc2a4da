// What this machine offers, looked at once when the keeper starts.
#pragma once

#include "base/unique_fd.hpp"
#include "cage/cgroup.hpp"
#include "spec/plan.hpp"
#include "wire/messages.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace pinfold {

[[nodiscard]] machine_facts find_facts(const cgroup_tree& cgroups,
                                       const std::vector<std::string>& accept_unlimited);
// The same and more for `pinfold doctor`: name, value, whether it is as a cage needs it.
[[nodiscard]] std::vector<wire::fact> list_facts(const cgroup_tree& cgroups, const machine_facts& facts,
                                                 const std::filesystem::path& bpf_dir);

// A program of ours that runs inside cages, as a sealed memfd: no file of the machine can be reached, or overwritten,
// by its /proc/PID/exe. `folder` empty = beside the keeper. Throws with where it was looked for.
[[nodiscard]] unique_fd load_program(const std::filesystem::path& folder, const char* name);

// Mounts a bpffs at /sys/fs/bpf where systemd has not done so. Before the keeper leaves the machine's mounts.
void need_bpffs(const std::filesystem::path& bpf_dir);

} // namespace pinfold
