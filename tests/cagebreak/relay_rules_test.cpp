// The relay alone: for each rule that it has, what it would dial otherwise.
#include "cagebreak/refusal.hpp"
#include "spec/rules.hpp"

#include <set>

namespace pinfold::test {
namespace {

struct forbidden {
    std::uint32_t rule;
    const char* act;
    const char* address;
    aim at; // where it would arrive; what nobody has is counted on its way through the LAN's router
};

constexpr forbidden all_forbidden[] = {
    {PINFOLD_RULE_AGENT_PORT, "connect-tcp", "93.184.216.34", {"internet", "93.184.216.34", 7387}},
    {PINFOLD_RULE_THIS_HOST, "connect-tcp", "64:ff9b::7f00:1", {"lan", "64:ff9b::7f00:1"}},
    {PINFOLD_RULE_PRIVATE, "connect-tcp", "192.168.1.10", {"lan", "192.168.1.10"}},
    {PINFOLD_RULE_SHARED, "connect-tcp", "100.64.0.2", {"mesh", "100.64.0.2"}},
    {PINFOLD_RULE_LINK_LOCAL, "connect-tcp", "169.254.169.254", {"lan", "169.254.169.254"}},
    {PINFOLD_RULE_MULTICAST, "send-udp", "239.255.255.250", {"lan", "239.255.255.250"}},
    {PINFOLD_RULE_RESERVED, "connect-tcp", "198.18.0.1", {"lan", "198.18.0.1"}},
    {PINFOLD_RULE_RESERVED, "connect-tcp", "100::10", {"lan", "100::10"}},
    {PINFOLD_RULE_TUNNEL, "connect-tcp", "2002:c0a8:10a::1", {"lan", "2002:c0a8:10a::1"}},
    {PINFOLD_RULE_MACHINE, "connect-tcp", "81.2.69.2", {"machine", "81.2.69.2"}},
    {PINFOLD_RULE_ROUTE, "connect-tcp", "81.2.69.10", {"lan", "81.2.69.10"}},
    {PINFOLD_RULE_ROUTE, "send-udp", "2a01:4f8:77:1::10", {"lan", "2a01:4f8:77:1::10"}},
};

TEST_CASE("without its guard a sealed cage is refused by the relay, by each rule that the relay has") {
    cage_machine& machine = cage_machine::here();
    const cage_kind unguarded = sealed().without(guard::destinations);
    std::set<std::uint32_t> seen;
    for (const forbidden& each : all_forbidden) {
        CAPTURE(text_of_rule(each.rule).name, each.address);
        seen.insert(each.rule);
        const std::vector<std::string> act{each.act, each.address, std::to_string(each.at.port), "ping!"};
        machine.net().reset();
        (void)machine.probe(unguarded, act);
        CHECK(arrived_at(each.at) == nothing);
        machine.net().reset();
        (void)machine.probe(unguarded.with_open_relay(), act); // the mutation
        CHECK(arrived_at(each.at).packets > 0);
    }
    // No rule without a row: but for those of acts that are no packets, and of a cage that has no policy.
    for (std::uint32_t rule = PINFOLD_RULE_NONE + 1; rule <= PINFOLD_RULE_LAST; ++rule) {
        CAPTURE(text_of_rule(rule).name);
        CHECK(seen.contains(rule) != (rule == PINFOLD_RULE_NO_POLICY || rule == PINFOLD_RULE_SOCKET_KIND ||
                                      rule == PINFOLD_RULE_SOURCE_ROUTE));
    }
    for (const char* address : {"93.184.216.34", "2606:2800:220:1::34"}) // the twins
        CHECK(machine.probe(unguarded, {"connect-tcp", address, "9000", "ping!"}).status == 0);
}

} // namespace
} // namespace pinfold::test
