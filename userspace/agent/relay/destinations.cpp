#include "agent/relay/destinations.hpp"

#include "agent/relay/relay.hpp"
#include "pinfold/address.h"
#include "pinfold/denial.h"
#include "pinfold/network.h"
#include "pinfold/policy.h"
#include "spec/cage_spec.hpp"

#include <netinet/in.h>

namespace pinfold {

namespace {

bool in_own_ranges(const endpoint& to) {
    if (to.is_v4()) {
        constexpr std::uint32_t mask = ~std::uint32_t{0} << (32 - PINFOLD_OWN4_PREFIX);
        return (to.v4() & mask) == (PINFOLD_OWN4 & mask);
    }
    constexpr std::array<std::uint32_t, 4> own = PINFOLD_OWN6_WORDS;
    static_assert(PINFOLD_OWN6_PREFIX == 64);
    return to.words()[0] == own[0] && to.words()[1] == own[1];
}

std::uint32_t never_dialled4(std::uint32_t to) {
    const std::uint32_t first = to >> 24;
    if (first == 0 || first == 127) return PINFOLD_RULE_THIS_HOST;
    if (first >= 240 && to != 0xffffffff) return PINFOLD_RULE_RESERVED;
    return first >= 224 ? PINFOLD_RULE_MULTICAST : PINFOLD_RULE_NONE;
}

std::uint32_t never_dialled6(const std::array<std::uint32_t, 4>& to) {
    if (to[0] == 0 && to[1] == 0 && to[2] == 0 && to[3] <= 1) return PINFOLD_RULE_THIS_HOST; // :: and ::1
    // An AF_INET6 socket would dial ::ffff:a.b.c.d as IPv4, past every rule for IPv6; no lawful packet has it on the wire.
    if (to[0] == 0 && to[1] == 0 && (to[2] == 0 || to[2] == 0xffff)) return PINFOLD_RULE_TUNNEL;
    if ((to[0] >> 22) == (0xfe800000u >> 22)) return PINFOLD_RULE_LINK_LOCAL;
    return (to[0] >> 24) == 0xff ? PINFOLD_RULE_MULTICAST : PINFOLD_RULE_NONE;
}

// 64:ff9b::a.b.c.d reaches a.b.c.d through the network's translator: it is judged as that, too.
bool is_translated(const std::array<std::uint32_t, 4>& to) {
    return to[0] == 0x0064ff9b && to[1] == 0 && to[2] == 0;
}

std::uint32_t judge_address(cage_mode mode, const endpoint& to) {
    const std::uint32_t policy = mode == cage_mode::caged ? PINFOLD_CAGED : PINFOLD_SEALED;
    if (to.is_v4()) return pinfold_judge4(to.v4(), policy);
    const auto words = to.words();
    return pinfold_judge6(words.data(), policy);
}

} // namespace

std::uint32_t never_dialled(int protocol, const endpoint& to) noexcept {
    if (to.family != AF_INET && to.family != AF_INET6) return PINFOLD_RULE_NO_POLICY;
    if (protocol == IPPROTO_TCP && to.port == PINFOLD_AGENT_PORT) return PINFOLD_RULE_AGENT_PORT;
    if (in_own_ranges(to)) return PINFOLD_RULE_RESERVED;
    if (to.is_v4()) return never_dialled4(to.v4());
    const auto words = to.words();
    if (const std::uint32_t rule = never_dialled6(words)) return rule;
    return is_translated(words) ? never_dialled4(words[3]) : std::uint32_t{PINFOLD_RULE_NONE};
}

destination_check machine_destinations() {
    return [routes = std::make_shared<route_judge>()](cage_mode mode, int protocol, const endpoint& to) {
        if (const std::uint32_t rule = never_dialled(protocol, to)) return rule;
        if (const std::uint32_t rule = judge_address(mode, to)) return rule;
        return mode == cage_mode::caged ? std::uint32_t{PINFOLD_RULE_NONE} : routes->judge(protocol, to);
    };
}

} // namespace pinfold
