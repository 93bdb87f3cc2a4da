#include "agent/relay/destinations.hpp"

#include "agent/relay/relay.hpp"
#include "pinfold/address.h"
#include "spec/cage_spec.hpp"

#include <netinet/in.h>

namespace pinfold {

namespace {

constexpr std::uint32_t allowed = PINFOLD_RULE_NONE;

std::uint32_t judge_address(cage_mode mode, const endpoint& to) {
    const std::uint32_t policy = mode == cage_mode::caged ? PINFOLD_CAGED : PINFOLD_SEALED;
    if (to.is_v4()) return pinfold_judge4(to.v4(), policy);
    const auto words = to.words();
    return pinfold_judge6(words.data(), policy);
}

// The IPv4 address that the network's translator will send to, 64:ff9b::a.b.c.d; family 0 where there is none.
endpoint translated(const endpoint& to) {
    if (to.is_v4()) return {};
    const auto words = to.words();
    return pinfold_carries4(words.data()) ? endpoint::v4(words[3], to.port) : endpoint{};
}

std::uint32_t judge_routes(route_judge& routes, int protocol, const endpoint& to, matched_route* found) {
    if (const std::uint32_t rule = routes.judge(protocol, to, route_judge::no_route::refused, found))
        return rule;
    const endpoint inside = translated(to);
    // A machine behind a translator may have no IPv4 of its own, and then nothing there is local to it.
    if (inside.family == 0) return allowed;
    return routes.judge(protocol, inside, route_judge::no_route::not_local, found);
}

} // namespace

std::uint32_t never_dialled(int protocol, const endpoint& to) noexcept {
    if (to.family != AF_INET && to.family != AF_INET6) return PINFOLD_RULE_NO_POLICY;
    if (pinfold_agent_port(protocol == IPPROTO_TCP, to.port)) return PINFOLD_RULE_AGENT_PORT;
    if (to.is_v4()) return pinfold_never4(to.v4());
    // An AF_INET6 socket would dial it as IPv4, past every rule for IPv6; no lawful packet has it on the wire.
    if (to.is_v4_mapped()) return PINFOLD_RULE_TUNNEL;
    const auto words = to.words();
    if (const std::uint32_t rule = pinfold_never6(words.data())) return rule;
    const endpoint inside = translated(to);
    return inside.family == 0 ? allowed : never_dialled(protocol, inside);
}

std::uint32_t judge_destination(route_judge& routes, cage_mode mode, int protocol, const endpoint& to,
                                matched_route* found) noexcept {
    if (const std::uint32_t rule = never_dialled(protocol, to)) return rule;
    if (const std::uint32_t rule = judge_address(mode, to)) return rule;
    return mode == cage_mode::caged ? allowed : judge_routes(routes, protocol, to, found);
}

destination_check machine_destinations() {
    return [routes = std::make_shared<route_judge>()](cage_mode mode, int protocol, const endpoint& to) {
        return judge_destination(*routes, mode, protocol, to);
    };
}

} // namespace pinfold
