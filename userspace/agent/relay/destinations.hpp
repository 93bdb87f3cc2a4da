// The second wall's judgement: which destinations the relay never dials, and which are local to this machine.
#pragma once

#include "agent/relay/endpoint.hpp"

#include <array>
#include <cstdint>

namespace pinfold {

// What the relay lends to no cage, whatever its mode: the agents' port, pinfold_never4/6 of address.h, and any IPv6
// packet to ::ffff:0:0/96. enum pinfold_rule, 0 = none of these.
[[nodiscard]] std::uint32_t never_dialled(int protocol, const endpoint& to) noexcept;

// The entry of the machine's routing tables that the kernel would send by; family 0 = none was told.
struct matched_route {
    std::uint8_t family = 0;
    std::uint8_t length = 0;
    std::uint8_t type = 0; // RTN_LOCAL, RTN_UNICAST, …
    std::uint32_t table = 0;
    std::uint32_t interface = 0; // 0 = it names none
    std::array<std::uint8_t, 16> destination{};
    std::array<std::uint8_t, 16> gateway{}; // all zero = on the link

    bool operator==(const matched_route&) const = default;
};

// The kernel's own answer, from the route it would take: PINFOLD_RULE_MACHINE, PINFOLD_RULE_ROUTE (a more specific
// route than the default one, or no lawful answer), or 0. Keeps one netlink socket.
class route_judge {
public:
    route_judge() = default;
    route_judge(const route_judge&) = delete;
    route_judge& operator=(const route_judge&) = delete;
    ~route_judge();

    enum class no_route : std::uint8_t { refused, not_local };
    // `found`, if given, becomes what the kernel told.
    [[nodiscard]] std::uint32_t judge(int protocol, const endpoint& to, no_route without,
                                      matched_route* found = nullptr) noexcept;

private:
    [[nodiscard]] bool open() noexcept;

    int socket_ = -1;
    std::uint32_t sequence_ = 0;
};

enum class cage_mode : std::uint8_t;

// The whole judgement of the second wall: what machine_destinations() answers, and the route it was by, where one was.
[[nodiscard]] std::uint32_t judge_destination(route_judge& routes, cage_mode mode, int protocol,
                                              const endpoint& to, matched_route* found = nullptr) noexcept;

} // namespace pinfold
