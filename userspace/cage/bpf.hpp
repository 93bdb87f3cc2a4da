// What the guards and the steering share of libbpf: quiet logging, pins in a bpffs, links by the system call.
#pragma once

#include "base/unique_fd.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

namespace pinfold::bpf {

// libbpf's own messages go to the debug log. RLIMIT_MEMLOCK needs no care: from 5.11 on BPF memory is charged to the
// memory cgroup, libbpf sees that by a trial and leaves the limit alone. Idempotent.
void set_up_library();

// Makes the folder and its parents; throws unless it is on a bpffs.
void make_pin_folder(const std::filesystem::path& folder);

// cages/<cage in hex> below `pins`.
[[nodiscard]] std::filesystem::path cage_folder(const std::filesystem::path& pins, std::uint64_t cage);

// Throws std::system_error where the name is taken.
void pin(int fd, const std::filesystem::path& where);
// No error where nothing is pinned.
void unpin(const std::filesystem::path& where);
// Removes the folder if nothing is pinned in it any more.
void remove_if_empty(const std::filesystem::path& folder) noexcept;

// An options struct of libbpf's, empty: its own macro for it is not C++.
template <typename Options>
[[nodiscard]] Options options() noexcept {
    Options made = {};
    made.sz = sizeof made;
    return made;
}

// BPF_LINK_CREATE; `target` is a cgroup, a network namespace, or (for tcx) an ifindex. errno is kept on failure.
[[nodiscard]] unique_fd create_link(int program, int target, std::uint32_t attach_type) noexcept;

// BPF_TCX_EGRESS, newer than the 6.1 headers.
inline constexpr std::uint32_t tcx_egress = 47;

} // namespace pinfold::bpf
