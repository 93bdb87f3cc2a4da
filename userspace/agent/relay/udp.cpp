#include "agent/relay/udp.hpp"

#include "agent/relay/served_cage.hpp"
#include "agent/relay/udp_flow.hpp"
#include "base/error.hpp"
#include "pinfold/network.h"
#include "spec/cage_spec.hpp"

#include <netinet/in.h>
#include <spdlog/spdlog.h>

namespace pinfold {

namespace {

constexpr std::uint16_t dns_port = 53;

bool is_gateway(const endpoint& to) {
    return to.is_v4() && to.v4() == PINFOLD_GATEWAY4;
}

} // namespace

udp_side::udp_side(served_cage& cage) : cage_(cage), flows_(0, cage.core().hash) {}

udp_side::~udp_side() = default;

void udp_side::take(const packet& from) {
    const auto known = flows_.find(from.flow);
    udp_flow* flow = known != flows_.end() ? known->second.get() : nullptr;
    if (flow == nullptr && refuse(from)) return;
    if (flow == nullptr) flow = begin(from);
    used(*flow);
    flow->send(from);
}

udp_flow* udp_side::begin(const packet& from) {
    if (flows_.size() >= cage_.core().limits.udp_flows && !by_age_.empty()) forget(by_age_.front());
    const bool to_resolver = from.kind == packet_kind::udp && is_gateway(from.flow.destination);
    auto made = std::make_unique<udp_flow>(*this, from.flow, to_resolver);
    udp_flow* flow = made.get();
    flows_.emplace(from.flow, std::move(made));
    by_age_.push_back(*flow);
    return flow;
}

void udp_side::judge_again() {
    std::vector<std::pair<udp_flow*, std::uint32_t>> refused;
    for (const auto& [key, flow] : flows_) {
        if (is_gateway(key.destination)) continue;
        if (const std::uint32_t rule = cage_.core().check(cage_.mode(), key.protocol, key.destination))
            refused.emplace_back(flow.get(), rule);
    }
    for (const auto& [flow, rule] : refused) {
        cage_.refused(rule, flow->key().protocol, flow->key().destination);
        flow->refuse();
    }
}

// Whether it was refused, and answered.
bool udp_side::refuse(const packet& from) {
    const endpoint& to = from.flow.destination;
    if (is_gateway(to)) {
        if (from.kind == packet_kind::udp && to.port == dns_port && !cage_.resolvers().empty()) return false;
        ++cage_.counters().refused; // nobody is there: as a closed port, and no rule is broken
        complain(from, from.kind == packet_kind::udp ? unreachable::port : unreachable::denied);
        return true;
    }
    const bool echo = from.kind == packet_kind::echo;
    const int protocol = !echo ? IPPROTO_UDP : to.is_v4() ? int{IPPROTO_ICMP} : int{IPPROTO_ICMPV6};
    const std::uint32_t rule = cage_.core().check(cage_.mode(), protocol, to);
    if (rule == 0) return false;
    cage_.refused(rule, protocol, to);
    complain(from, unreachable::denied);
    return true;
}

void udp_side::complain(const packet& from, unreachable why) {
    if (cage_.may_complain()) cage_.answer(from.flow, why, from.whole);
}

void udp_side::used(udp_flow& which) noexcept {
    which.unlink();
    by_age_.push_back(which);
}

bool udp_side::take_fd(const udp_flow& not_this) {
    if (cage_.take_fds(1)) return true;
    // The fd of the flow that ends here comes free with its operation, so this datagram is lost and the next one is not.
    if (!by_age_.empty() && &by_age_.front() != &not_this) forget(by_age_.front());
    return cage_.take_fds(1);
}

void udp_side::forget(udp_flow& which) {
    const auto found = flows_.find(which.key());
    std::unique_ptr<udp_flow> flow = std::move(found->second);
    flows_.erase(found);
    flow->unlink();
    flow->abandon();
    if (flow->quiet()) return;
    ++leaving_;
    (void)flow.release(); // owned by its operations in flight now; left() takes it back
}

void udp_side::left(udp_flow& which) noexcept {
    delete &which;
    --leaving_;
    cage_.look_for_end();
}

void udp_side::end() {
    while (!flows_.empty()) forget(*flows_.begin()->second);
}

void udp_side::report_no_ping(int error) {
    if (std::exchange(cage_.core().ping_reported, true)) return;
    spdlog::warn(
        "open a ping socket for a cage: {}; cages cannot ping until net.ipv4.ping_group_range holds this "
        "user's group",
        std::generic_category().message(error));
}

} // namespace pinfold
