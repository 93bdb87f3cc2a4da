#include "agent/explanation.hpp"

#include "agent/relay/destinations.hpp"
#include "spec/ranges.hpp"
#include "spec/rules.hpp"

#include <arpa/inet.h>
#include <cstring>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pinfold/destination.h>

namespace pinfold {
namespace {

constexpr std::uint16_t dns_port = 53;

cage_mode mode_of_cage(run_mode mode) {
    return mode == run_mode::caged ? cage_mode::caged : cage_mode::sealed;
}

bool is_own(const endpoint& to) {
    return to.is_v4() ? pinfold_own4(to.v4()) != 0 : pinfold_own6(to.words().data()) != 0;
}

bool is_gateway(const endpoint& to) {
    return to.is_v4() && pinfold_gateway4(to.v4()) != 0;
}

// The IPv4 address by which a NAT64 one is judged, else the address itself.
endpoint judged_as(const endpoint& to) {
    if (to.is_v4()) return to;
    const auto words = to.words();
    return pinfold_carries4(words.data()) != 0 ? endpoint::v4(words[3], to.port) : to;
}

std::string address_text(std::uint8_t family, const std::array<std::uint8_t, 16>& address) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    return ::inet_ntop(family, address.data(), text.data(), text.size()) != nullptr ? text.data() : "?";
}

std::string prefix_text(std::uint8_t family, const std::array<std::uint8_t, 16>& address,
                        std::uint32_t length) {
    const std::string text = address_text(family, address);
    return length == (family == AF_INET ? 32U : 128U) ? text : fmt::format("{}/{}", text, length);
}

std::string device_name(std::uint32_t index) {
    std::array<char, IF_NAMESIZE> name{};
    return index != 0 && ::if_indextoname(index, name.data()) != nullptr ? name.data() : "";
}

// A question to both walls and their answers.
struct asked {
    cage_mode mode = cage_mode::sealed;
    why_target target;
    wire::explained guards;
    std::uint32_t relay = 0;
    matched_route route; // what the kernel says now, whoever refused
};

wire::explain question_of(std::uint64_t cage, cage_mode mode, const why_target& target) {
    return {.cage = cage,
            .mode = mode,
            .family = target.to.family,
            .protocol = static_cast<std::uint32_t>(target.protocol),
            .port = target.to.port,
            .address = target.to.address};
}

void ask_relay(asked& both) {
    route_judge routes;
    both.relay = judge_destination(routes, both.mode, both.target.protocol, both.target.to, &both.route);
    // Guards that refused it by a trie know no device: the kernel does.
    if (both.route.family == 0 && both.guards.prefix_family != 0)
        std::ignore = routes.judge(both.target.protocol, judged_as(both.target.to),
                                   route_judge::no_route::not_local, &both.route);
}

why_origin origin_of_range(const endpoint& to) {
    const auto words = to.words();
    const auto range = range_of(std::span(words).first(to.is_v4() ? 1 : 4));
    if (!range) return {};
    return {.kind = "range",
            .text = std::string(range->text),
            .name = std::string(range->name),
            .source = std::string(range->source)};
}

// Of the machine's own: by the prefix in the guards' tries where these refused, by the kernel's route where the relay did.
why_origin origin_of_machine(const asked& both, std::uint32_t rule, bool by_guards) {
    const matched_route& route = both.route;
    const bool machine = rule == PINFOLD_RULE_MACHINE;
    why_origin origin{.kind = machine ? "address" : "route"};
    const bool same = !by_guards ||
                      (both.guards.prefix_family == route.family &&
                       both.guards.prefix_length == route.length && both.guards.prefix == route.destination);
    if (by_guards)
        origin.text = prefix_text(static_cast<std::uint8_t>(both.guards.prefix_family), both.guards.prefix,
                                  both.guards.prefix_length);
    else if (route.family != 0)
        origin.text = prefix_text(route.family, route.destination, route.length);
    if (route.family != 0 && same) {
        origin.device = device_name(route.interface);
        if (route.gateway != std::array<std::uint8_t, 16>{})
            origin.via = address_text(route.family, route.gateway);
        origin.table = route.table;
    }
    if (machine)
        origin.name = "an address of the machine itself";
    else if (route.family == 0 && !by_guards)
        origin.name = "the machine has no route there, and what cannot be judged is refused";
    else
        origin.name = !same || route.type == RTN_UNICAST ? "a route of the machine's own"
                                                         : "a route of the machine that leads nowhere";
    return origin;
}

why_origin origin_of(const asked& both, std::uint32_t rule, bool by_guards) {
    switch (rule) {
    case PINFOLD_RULE_NO_POLICY: return {.kind = "policy", .name = "the cage's guards have no policy"};
    case PINFOLD_RULE_AGENT_PORT:
        return {
            .kind = "port", .text = fmt::format("TCP {}", PINFOLD_AGENT_PORT), .name = "the agents' port"};
    case PINFOLD_RULE_MACHINE:
    case PINFOLD_RULE_ROUTE: return origin_of_machine(both, rule, by_guards);
    default: return origin_of_range(judged_as(both.target.to));
    }
}

// What both walls would say of the same target to a caged cage.
bool open_when_caged(const why_target& target) {
    const endpoint& to = target.to;
    const int stream = target.protocol == IPPROTO_TCP ? 1 : 0;
    int ask = 0;
    const std::uint32_t rule = to.is_v4()
                                   ? pinfold_guard4(to.v4(), stream, to.port, PINFOLD_CAGED, &ask)
                                   : pinfold_guard6(to.words().data(), stream, to.port, PINFOLD_CAGED, &ask);
    route_judge routes;
    return rule == PINFOLD_RULE_NONE && judge_destination(routes, cage_mode::caged, target.protocol, to) == 0;
}

std::string remedy_of(const asked& both, std::uint32_t rule) {
    constexpr std::string_view caged = "Run the session caged instead of sealed to let it reach this.";
    if (rule == PINFOLD_RULE_NO_POLICY || rule == PINFOLD_RULE_AGENT_PORT)
        return std::string(text_of_rule(rule).remedy);
    const bool caged_may = both.mode == cage_mode::sealed && open_when_caged(both.target);
    if (rule == PINFOLD_RULE_TUNNEL)
        return caged_may ? "Use the IPv4 address itself, or run the session caged instead of sealed."
                         : "Use the IPv4 address itself.";
    if (caged_may) return std::string(caged);
    if (rule == PINFOLD_RULE_THIS_HOST)
        return "It cannot be allowed: a cage's loopback is its own. Run the service in the cage, or let a "
               "caged one reach "
               "it at another address of the machine.";
    return fmt::format("It cannot be allowed in any mode: {}.", text_of_rule(rule).reason);
}

void refuse(explanation& into, const asked& both, std::uint32_t rule, bool by_guards) {
    into.rule = rule;
    into.wall = by_guards ? "guards" : "relay";
    into.why = text_of_rule(rule).reason;
    into.origin = origin_of(both, rule, by_guards);
    into.remedy = remedy_of(both, rule);
    into.feels =
        by_guards ? "the call fails at once with EACCES, and nothing is sent"
                  : "the call is answered at once (EACCES or EHOSTUNREACH), and nothing leaves the machine";
}

// 192.0.0.1: no machine, the relay itself.
void answer_gateway(explanation& into, cage_mode mode, bool answers) {
    into.origin = {.kind = "gateway", .text = "192.0.0.1", .name = "the relay itself, no machine"};
    into.allowed = answers;
    into.why = answers ? "the relay answers there itself"
                       : "192.0.0.1 is the relay itself, and nothing answers at this port";
    if (answers) return;
    into.wall = "relay";
    into.feels = "the connection is refused (ECONNREFUSED), as by any closed port";
    into.remedy =
        into.target.to.port == dns_port && mode == cage_mode::sealed
            ? "A sealed cage asks 1.1.1.1 and 9.9.9.9; run the session caged to ask the machine's resolvers."
            : "It cannot be allowed: there is nothing to reach.";
}

explanation explain(const asked& both, explanation into, bool gateway_answers) {
    // What a ping socket sends passes the guards' hooks unseen, so the relay's word is the one that counts.
    const bool unseen = both.target.protocol != IPPROTO_TCP && both.target.protocol != IPPROTO_UDP &&
                        both.guards.rule != PINFOLD_RULE_NO_POLICY;
    if (!unseen) into.guards = both.guards.rule;
    if (!unseen && both.guards.rule != PINFOLD_RULE_NONE) {
        refuse(into, both, both.guards.rule, true);
        return into;
    }
    if (is_own(both.target.to)) {
        into.allowed = true;
        into.origin = {.kind = "own", .name = "the cage's own loopback or address, never the machine's"};
        into.why = "it stays in the cage";
        return into;
    }
    if (is_gateway(both.target.to)) {
        answer_gateway(into, both.mode, gateway_answers);
        return into;
    }
    into.relay = both.relay;
    if (both.relay != PINFOLD_RULE_NONE) {
        refuse(into, both, both.relay, false);
        return into;
    }
    into.allowed = true;
    into.why = both.mode == cage_mode::sealed ? "it is an address of the internet"
                                              : "a caged cage may reach it";
    return into;
}

bool mode_answers_gateway(cage_mode mode, const why_target& target) {
    return mode == cage_mode::caged && target.to.port == dns_port &&
           (target.protocol == IPPROTO_TCP || target.protocol == IPPROTO_UDP);
}

explanation explain_uncaged(std::string name, why_target target) {
    return {.cage = std::move(name),
            .mode = run_mode::uncaged,
            .target = std::move(target),
            .allowed = true,
            .why = "it is uncaged: no wall of pinfold's is asked, it can do what you can"};
}

} // namespace

task<explanation> explain_mode(cages& owned, run_mode mode, why_target target) {
    if (mode == run_mode::uncaged) co_return explain_uncaged("", std::move(target));
    asked both{.mode = mode_of_cage(mode), .target = target};
    auto [told, fds] = co_await owned.keeper().ask<wire::explained>(question_of(0, both.mode, target));
    both.guards = told;
    ask_relay(both);
    co_return explain(both, {.mode = mode, .target = target}, mode_answers_gateway(both.mode, target));
}

task<explanation> explain_cage(cages& owned, std::string name, why_target target) {
    const auto own = owned.find(name);
    if (own && own->mode == run_mode::uncaged) co_return explain_uncaged(std::move(name), std::move(target));
    for (const wire::cage_state& each : co_await owned.list()) {
        if (each.name != name) continue;
        const run_mode mode = each.mode == cage_mode::caged ? run_mode::caged : run_mode::sealed;
        if (each.state == "kept")
            throw bad_request(
                fmt::format("\"{0}\" does not run, only its files are kept; 'pinfold why --{1} TARGET' "
                            "answers for any {1} cage",
                            name, to_string(mode)));
        asked both{.mode = each.mode, .target = target};
        auto [told,
              fds] = co_await owned.keeper().ask<wire::explained>(question_of(each.cage, each.mode, target));
        if (!told.guarded)
            fail("the guards of \"{}\" are not all in place, so nothing can be said of what it may do; end "
                 "it with "
                 "'pinfold rm {}'",
                 name, name);
        both.guards = told;
        ask_relay(both);
        const bool answers = owned.way_out().serves(each.cage)
                                 ? owned.way_out().answers_at_gateway(each.cage, target.protocol,
                                                                      target.to.port)
                                 : mode_answers_gateway(each.mode, target);
        co_return explain(both, {.cage = name, .mode = mode, .target = target}, answers);
    }
    throw unknown_cage(
        fmt::format("there is no cage \"{}\"; 'pinfold ls' lists them, and 'pinfold why --sealed TARGET' "
                    "answers for any sealed one",
                    name));
}

} // namespace pinfold
