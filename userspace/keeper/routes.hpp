// What is local to this machine, followed live: its addresses, and every prefix with a route of its own (rtnetlink).
#pragma once

#include "cage/guards.hpp"
#include "cage/netlink.hpp"

#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace pinfold {

// As the kernel lists them. Addresses in network byte order, IPv4 in the first four bytes.
struct listed_address {
    std::uint8_t family = 0;
    std::uint8_t address[16] = {};
};

struct listed_route {
    std::uint8_t family = 0;
    std::uint8_t length = 0;
    std::uint8_t type = 0; // RTN_UNICAST, …
    std::uint32_t table = 0;
    std::uint8_t address[16] = {};
};

// A table that a routing rule of this family names; no other is ever looked at by the kernel.
using used_table = std::pair<std::uint8_t, std::uint32_t>;

// Each own address, and each destination that leaves by another way than the default route, without repetition and in
// order. Two halves of all addresses count as a default (so do VPNs go past one); one half alone does not.
[[nodiscard]] std::vector<local_prefix> local_prefixes(std::span<const listed_address> addresses,
                                                       std::span<const listed_route> routes,
                                                       const std::set<used_table>& tables);

class routes {
public:
    // Of the network namespace that the calling thread is in. Throws std::system_error.
    routes();

    // Readable when something may have changed: call refresh() then.
    [[nodiscard]] int fd() const noexcept { return news_.fd(); }

    // What is local now. News that were lost (ENOBUFS) cost nothing: all of it is read anew each time.
    [[nodiscard]] std::vector<local_prefix> refresh();

private:
    netlink_socket news_;
    netlink_socket lists_;
};

} // namespace pinfold
