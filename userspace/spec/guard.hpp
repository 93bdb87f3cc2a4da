// The restrictions that are eBPF programs, one file of bpf/ each.
#pragma once

#include <array>
#include <cstdint>

namespace pinfold {

enum class guard : std::uint8_t {
    destinations, // connect4/6, sendmsg4/6: where a cage may send
    sockets,      // sock_create: which kinds of socket exist
    options,      // setsockopt: no source routing
};

inline constexpr std::array all_guards{guard::destinations, guard::sockets, guard::options};

[[nodiscard]] const char* to_string(guard which) noexcept;

} // namespace pinfold
