// The guards' eBPF programs and maps: loaded once, pinned, and taken over by the next keeper.
#pragma once

#include "base/unique_fd.hpp"
#include "spec/guard.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <linux/bpf.h>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace pinfold {

// Where a guard's program is attached. A guard is all of its hooks.
struct guard_hook {
    guard which;
    const char* name;    // of the pin below cages/<cage>/
    const char* program; // as bpftool shows it
    std::uint32_t attach_type;
};

inline constexpr std::array guard_hooks{
    guard_hook{guard::destinations, "connect4", "cage_connect4", BPF_CGROUP_INET4_CONNECT},
    guard_hook{guard::destinations, "connect6", "cage_connect6", BPF_CGROUP_INET6_CONNECT},
    guard_hook{guard::destinations, "sendmsg4", "cage_sendmsg4", BPF_CGROUP_UDP4_SENDMSG},
    guard_hook{guard::destinations, "sendmsg6", "cage_sendmsg6", BPF_CGROUP_UDP6_SENDMSG},
    guard_hook{guard::sockets, "sock_create", "cage_socket", BPF_CGROUP_INET_SOCK_CREATE},
    guard_hook{guard::options, "setsockopt", "cage_option", BPF_CGROUP_SETSOCKOPT},
};

class guard_programs {
public:
    // Loads the programs with the maps that are pinned below `pins`, if there are any, so that cages that are alive keep
    // their policies. Programs that differ from the pinned ones replace them, also in the links of those cages. Throws
    // where the pinned maps are of another layout and cages live; without cages such maps are replaced.
    explicit guard_programs(const std::filesystem::path& pins);

    [[nodiscard]] int program(const guard_hook& hook) const { return programs_.at(hook.program).get(); }
    [[nodiscard]] int map(std::string_view name) const { return maps_.find(name)->second.get(); }

private:
    void adopt_maps(const std::filesystem::path& pins, bool cages_live);
    void load();
    void pin_maps(const std::filesystem::path& folder);
    void pin_program(const std::filesystem::path& pins, const guard_hook& hook);

    std::map<std::string, unique_fd, std::less<>> maps_;
    std::map<std::string, unique_fd, std::less<>> programs_;
};

// The cages that have a folder of pins, in whatever state.
[[nodiscard]] std::vector<std::uint64_t> pinned_cages(const std::filesystem::path& pins);

} // namespace pinfold
