#include "agent/relay/tcp.hpp"

#include "agent/relay/held_syn.hpp"
#include "agent/relay/served_cage.hpp"
#include "agent/relay/socket_options.hpp"
#include "agent/relay/tcp_flow.hpp"
#include "base/error.hpp"
#include "pinfold/network.h"
#include "spec/cage_spec.hpp"

#include <poll.h>
#include <spdlog/spdlog.h>

namespace pinfold {

namespace {

constexpr std::uint16_t dns_port = 53;

bool is_gateway(const endpoint& to) {
    return to.is_v4() && to.v4() == PINFOLD_GATEWAY4;
}

bool is_loopback(const endpoint& to) {
    return to.is_v4() && (to.v4() >> 24) == 127;
}

} // namespace

tcp_side::acceptor::acceptor(tcp_side& side) : readable(side.cage_.core().ring, *this, POLLIN), side_(side) {}

// A SYN was put back. The handshake ran within the write to the tun, so looking now saves a round through the ring.
void tcp_side::acceptor::expect() {
    ++expected_;
    side_.cage_.schedule(*this);
}

void tcp_side::acceptor::woken(watch&) noexcept {
    if (side_.ending_) return side_.cage_.look_for_end();
    // Arming looks at the queue again, so a connection that nobody took yet wakes at once.
    if (std::exchange(taken_unwatched_, false)) return readable.arm(side_.listener_);
    drain_ = true;
    side_.cage_.schedule(*this);
}

std::optional<steady::time_point> tcp_side::acceptor::due(steady::time_point) noexcept {
    drain_ = true;
    side_.cage_.schedule(*this);
    return std::nullopt;
}

bool tcp_side::acceptor::work(allowance& left) noexcept {
    while ((drain_ || expected_ > 0) && !left.empty()) {
        sockaddr_storage peer{};
        socklen_t size = sizeof peer;
        unique_fd accepted(
            ::accept4(side_.listener_, reinterpret_cast<sockaddr*>(&peer), &size, SOCK_CLOEXEC));
        left.spend(0, allowance::packet); // of a connection
        if (accepted) {
            if (expected_ > 0) --expected_;
            taken_unwatched_ |= readable.armed();
            side_.admit(std::move(accepted), peer, size);
            if (side_.ending_) return false; // a gateway service may end the cage
        } else if (errno == EAGAIN) {
            expected_ = 0; // whatever comes later wakes
            drain_ = false;
            readable.arm(side_.listener_);
            return false;
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            side_.cage_.core().timers.set(*this, steady::now() + std::chrono::milliseconds(200));
            return false;
        } else if (errno == EBADF || errno == EINVAL || errno == ENOTSOCK) {
            return false;
        }
    }
    return drain_ || expected_ > 0;
}

tcp_side::tcp_side(served_cage& cage, int listener)
    : cage_(cage), listener_(listener), acceptor_(*this), held_(0, cage.core().hash) {}

tcp_side::~tcp_side() = default;

void tcp_side::listen() {
    // Accepted sockets inherit both, which saves two system calls a connection.
    if (!set_reset_on_close(listener_, true) || !set_option(listener_, IPPROTO_TCP, TCP_NODELAY, 1))
        fail_errno(errno, "set the options of the listener of cage {}", cage_.id());
    acceptor_.readable.arm(listener_);
}

// What leads to the gateway was never judged by its address.
std::uint32_t tcp_side::rule_now(const endpoint& to) const {
    return is_gateway(to) ? 0 : cage_.core().check(cage_.mode(), IPPROTO_TCP, to);
}

void tcp_side::judge_again() {
    for (auto next = flows_.begin(); next != flows_.end();) {
        tcp_flow& flow = *next++; // before it is reset, and perhaps freed
        const endpoint to = flow.destination();
        const std::uint32_t rule = rule_now(to);
        if (rule == 0) continue;
        cage_.refused(rule, IPPROTO_TCP, to);
        flow.reset();
    }
    std::vector<held_syn*> refused;
    for (const auto& [key, held] : held_)
        if (rule_now(key.destination) != 0) refused.push_back(held.get());
    for (held_syn* held : refused) {
        cage_.refused(rule_now(held->key().destination), IPPROTO_TCP, held->key().destination);
        held->refuse();
    }
}

void tcp_side::end() {
    ending_ = true;
    acceptor_.unlink();
    acceptor_.readable.cancel();
    cage_.core().timers.drop(acceptor_);
    while (!held_.empty()) forget(*held_.begin()->second);
    for (auto flow = flows_.begin(); flow != flows_.end();) (flow++)->reset();
}

bool tcp_side::ended() const noexcept {
    return !acceptor_.readable.armed() && flow_count_ == 0 && leaving_ == 0 && held_.empty();
}

void tcp_side::take(const packet& syn) {
    const auto known = held_.find(syn.flow);
    if (known != held_.end()) {
        held_syn& held = *known->second;
        if (!held.established() || held.is_same(syn)) return held.repeated(syn);
        // Stale: reset after the handshake and before accept, and the port is used again. Not optional: without this
        // rule some of 2,000 connections in a row stall for a second.
        forget(held);
    }
    if (refuse(syn)) return;
    const bool to_gateway = is_gateway(syn.flow.destination);
    const auto service = cage_.core().services.find(syn.flow.destination.port);
    const bool served = to_gateway && service != cage_.core().services.end();
    if (!make_room()) {
        ++cage_.counters().dropped; // its kernel will ask again, and by then there may be room
        return;
    }
    if (flow_count_ + held_.size() >= cage_.core().limits.tcp_flows || !cage_.take_fds(2)) {
        ++cage_.counters().failed;
        return cage_.answer_syn(syn.flow, unreachable::host, syn.whole, syn.sequence);
    }
    begin(syn, served ? &service->second : nullptr, to_gateway);
}

void tcp_side::begin(const packet& syn, const gateway_service* service, bool to_resolver) {
    auto made = std::make_unique<held_syn>(*this, syn);
    held_syn& held = *held_.emplace(syn.flow, std::move(made)).first->second;
    if (service != nullptr)
        held.wait_for_accept(service);
    else if (to_resolver)
        held.connect_to_resolver();
    else
        held.connect(syn.flow.destination);
}

// Whether the SYN was refused, and answered.
bool tcp_side::refuse(const packet& syn) {
    const endpoint& to = syn.flow.destination;
    if (!is_gateway(to)) {
        const std::uint32_t rule = cage_.core().check(cage_.mode(), IPPROTO_TCP, to);
        if (rule == 0) return false;
        cage_.refused(rule, IPPROTO_TCP, to);
        cage_.answer_syn(syn.flow, unreachable::denied, syn.whole, syn.sequence);
        return true;
    }
    const auto service = cage_.core().services.find(to.port);
    if (service != cage_.core().services.end())
        if (cage_.mode() == cage_mode::caged || service->second.for_sealed) return false;
    if (to.port == dns_port && !cage_.resolvers().empty()) return false;
    ++cage_.counters().refused;
    cage_.write(build_reset(cage_.core().outgoing.bytes(), syn.flow, syn.sequence));
    return true;
}

// At the limit of held SYNs the one whose application has given up longest ago makes room.
bool tcp_side::make_room() {
    if (held_.size() < cage_.core().limits.pending) return true;
    const auto now = steady::now();
    held_syn* oldest = nullptr;
    for (const auto& [key, held] : held_)
        if (held->overdue(now) && (oldest == nullptr || held->last_seen() < oldest->last_seen()))
            oldest = held.get();
    if (oldest == nullptr) return false;
    forget(*oldest);
    return true;
}

void tcp_side::forget(const held_syn& which) {
    const auto found = held_.find(which.key());
    std::unique_ptr<held_syn> held = std::move(found->second);
    held_.erase(found);
    if (!held->connecting()) return;
    ++leaving_;
    held.release()->abandon(); // owned by its operation in flight now; left() takes it back
}

void tcp_side::left(held_syn& which) noexcept {
    delete &which;
    --leaving_;
    cage_.look_for_end();
}

// The kernel really ended the connection on the address that was asked for, so its own name is the destination. accept4
// tells the peer even of a connection that was reset meanwhile; getpeername() would not.
void tcp_side::admit(unique_fd accepted, const sockaddr_storage& peer, socklen_t peer_size) {
    sockaddr_storage local{};
    socklen_t size = sizeof local;
    if (::getsockname(accepted.get(), reinterpret_cast<sockaddr*>(&local), &size) < 0) return;
    const flow_key key{.protocol = IPPROTO_TCP,
                       .source = endpoint::from(peer, peer_size),
                       .destination = endpoint::from(local, size)};
    const auto found = held_.find(key);
    // Straight to the listener's own address, or past the SYN program (IP options): nobody was asked. Closing resets it.
    if (is_loopback(key.destination) || found == held_.end() || !found->second->established()) {
        ++cage_.counters().refused;
        return;
    }
    const std::unique_ptr<held_syn> held = std::move(found->second);
    held_.erase(found);
    if (const gateway_service* service = held->service()) {
        set_reset_on_close(accepted.get(), false);
        service->accepted(cage_.id(), std::move(accepted));
        return;
    }
    unique_fd upstream = held->take_upstream();
    if (!upstream) { // useless to the kernel
        ++cage_.counters().failed;
        cage_.give_fds(2);
        return;
    }
    auto* flow = new tcp_flow(*this, std::move(accepted), std::move(upstream)); // in flows_ until free()
    flows_.push_back(*flow);
    ++flow_count_;
}

void tcp_side::free(tcp_flow& which) noexcept {
    delete &which;
    --flow_count_;
    cage_.give_fds(2);
    cage_.look_for_end();
}

} // namespace pinfold
