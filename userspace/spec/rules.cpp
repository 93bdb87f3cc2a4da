#include "spec/rules.hpp"

#include <array>
#include <pinfold/denial.h>

namespace pinfold {
namespace {

constexpr std::string_view caged_may = "Run the session caged instead of sealed to let it reach this.";

// In the order of enum pinfold_rule.
constexpr std::array rules{
    rule_text{"none", "it is not refused", ""},
    rule_text{"no-policy", "the cage has no policy, so everything is refused",
              "This is a fault of pinfold's or a keeper that ended while it made the cage: end the session "
              "and start it "
              "again."},
    rule_text{"agent-port", "TCP port 7387 belongs to the agents, and no cage may speak to them there",
              "Ask other agents for work through the proxy socket in the cage."},
    rule_text{"this-host",
              "the address means the machine itself, and a cage's own loopback is not the machine's", ""},
    rule_text{"private", "the address is in a private network", caged_may},
    rule_text{"shared", "the address is in a range shared by carriers and meshes (100.64.0.0/10)", caged_may},
    rule_text{"link-local", "the address is link-local: a neighbour, or a cloud's metadata service",
              "Run the session caged instead of sealed to let it reach an IPv4 one; IPv6 link-local "
              "addresses cannot be "
              "reached from a cage."},
    rule_text{"multicast", "the address is multicast or broadcast, which a cage cannot send", ""},
    rule_text{"reserved", "the address is in a reserved range", caged_may},
    rule_text{"tunnel", "the address hides an IPv4 address, so where it leads cannot be judged",
              "Use the IPv4 address itself."},
    rule_text{"machine", "it is an address of the machine itself", caged_may},
    rule_text{"route", "the machine has a route of its own to this address, so it is local", caged_may},
    rule_text{"socket-kind", "sockets in a cage are TCP, UDP and ICMP echo, and this is none of them", ""},
    rule_text{"source-route", "packets of a cage may not bring their own route", ""},
};
static_assert(rules.size() == PINFOLD_RULE_LAST + 1);

struct act_text {
    std::string_view name;
    std::string_view verb;
};

// In the order of enum pinfold_act.
constexpr std::array acts{
    act_text{"unknown", "doing something"},
    act_text{"connect", "connecting"},
    act_text{"send", "sending"},
    act_text{"socket", "making a socket"},
    act_text{"option", "setting a socket option"},
};
static_assert(acts.size() == PINFOLD_ACT_OPTION + 1);

} // namespace

rule_text text_of_rule(std::uint32_t rule) noexcept {
    if (rule < rules.size()) return rules[rule];
    return {"unknown", "a rule that this version does not know", ""};
}

std::optional<std::uint32_t> rule_of_name(std::string_view name) noexcept {
    for (std::uint32_t rule = 0; rule < rules.size(); ++rule)
        if (rules[rule].name == name) return rule;
    return std::nullopt;
}

std::string_view name_of_act(std::uint32_t act) noexcept {
    return acts[act < acts.size() ? act : 0].name;
}

std::string_view verb_of_act(std::uint32_t act) noexcept {
    return acts[act < acts.size() ? act : 0].verb;
}

} // namespace pinfold
