// The second wall's judgement: which destinations the relay never dials, and which are local to this machine.
#pragma once

#include "agent/relay/endpoint.hpp"

#include <cstdint>

namespace pinfold {

// What the relay lends to no cage, whatever its mode: the agents' port, pinfold_never4/6 of address.h, and any IPv6
// packet to ::ffff:0:0/96. enum pinfold_rule, 0 = none of these.
[[nodiscard]] std::uint32_t never_dialled(int protocol, const endpoint& to) noexcept;

// The kernel's own answer, from the route it would take: PINFOLD_RULE_MACHINE, PINFOLD_RULE_ROUTE (a more specific
// route than the default one, or no lawful answer), or 0. Keeps one netlink socket.
class route_judge {
public:
    route_judge() = default;
    route_judge(const route_judge&) = delete;
    route_judge& operator=(const route_judge&) = delete;
    ~route_judge();

    enum class no_route : std::uint8_t { refused, not_local };
    [[nodiscard]] std::uint32_t judge(int protocol, const endpoint& to, no_route without) noexcept;

private:
    [[nodiscard]] bool open() noexcept;

    int socket_ = -1;
    std::uint32_t sequence_ = 0;
};

} // namespace pinfold
