#include "agent/relay/held_syn.hpp"

#include "agent/relay/served_cage.hpp"
#include "agent/relay/socket_options.hpp"
#include "agent/relay/tcp.hpp"

#include <poll.h>

namespace pinfold {

namespace {

constexpr std::chrono::seconds resolver_patience{3}; // then the next one is asked

// What the application's connect() is to end with; nothing = its own time-out speaks.
std::optional<unreachable> icmp_for(int error) {
    switch (error) {
    case ETIMEDOUT: return std::nullopt;
    case ENETUNREACH: return unreachable::network;
    case EACCES:
    case EPERM: return unreachable::denied;
    default: return unreachable::host;
    }
}

} // namespace

held_syn::held_syn(tcp_side& side, const packet& syn)
    : side_(side),
      key_(syn.flow),
      sequence_(syn.sequence),
      syn_(syn.whole.begin(), syn.whole.end()),
      connected_(side.cage().core().ring, *this, POLLOUT),
      seen_(steady::now()) {}

held_syn::~held_syn() {
    if (owns_fds_) side_.cage().give_fds(2);
}

int held_syn::open(const endpoint& to) {
    upstream_ = unique_fd(::socket(to.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!upstream_) return errno;
    if (!to.is_v4() && !set_option(upstream_.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1)) return errno;
    return 0;
}

void held_syn::connect(const endpoint& to) {
    if (const int error = open(to)) return failed(error);
    sockaddr_storage name{};
    const socklen_t size = to.write(name);
    const auto* where = reinterpret_cast<const sockaddr*>(&name);
    // Not the ring's own connect: on 6.18 that ends with 0 where the network answered "unreachable".
    int result = ::connect(upstream_.get(), where, size);
    // Asked again it tells how it ended. Somebody on this machine has answered by now, without a round through the ring.
    if (result < 0 && errno == EINPROGRESS) result = ::connect(upstream_.get(), where, size);
    if (result == 0) return wait_for_accept();
    if (errno != EALREADY) return failed(errno);
    connected_.arm(upstream_.get());
}

void held_syn::connect_to_resolver() {
    served_cage& cage = side_.cage();
    to_resolver_ = true;
    const std::size_t count = cage.resolvers().size();
    const bool last = ++resolvers_tried_ == count;
    if (!last) cage.core().timers.set(*this, steady::now() + resolver_patience);
    connect(cage.resolvers()[cage.first_resolver % count]);
}

void held_syn::woken(watch&) noexcept {
    if (abandoned_) return side_.left(*this);
    side_.cage().core().timers.drop(*this);
    if (connected_.result() < 0) return failed(-connected_.result());
    const int error = pending_error(upstream_.get());
    error == 0 ? wait_for_accept() : failed(error);
}

void held_syn::wait_for_accept(const gateway_service* service) {
    served_cage& cage = side_.cage();
    established_ = true;
    service_ = service;
    ++cage.counters().opened;
    // It may be reset before it is accepted, or its application may have left in silence: then nothing else ends this.
    cage.core().timers.set(*this, steady::now() + cage.core().limits.unaccepted);
    cage.write(syn_);
    // Only now: the application, connected already, need not wait for them.
    if (service_ == nullptr && !set_flow_options(upstream_.get())) upstream_.reset();
    side_.expect_accept();
}

void held_syn::failed(int error) {
    served_cage& cage = side_.cage();
    upstream_.reset();
    if (to_resolver_ && resolvers_tried_ < cage.resolvers().size()) {
        ++cage.first_resolver;
        return connect_to_resolver();
    }
    ++cage.counters().failed;
    if (error == ECONNREFUSED || error == ECONNRESET)
        cage.write(build_reset(cage.core().outgoing.bytes(), key_, sequence_));
    else if (const auto why = icmp_for(error))
        cage.answer_syn(key_, *why, syn_, sequence_);
    side_.forget(*this);
}

std::optional<steady::time_point> held_syn::due(steady::time_point) noexcept {
    // A resolver that does not answer: its connect ends as cancelled, and failed() goes on to the next.
    if (connected_.armed())
        connected_.cancel();
    else
        side_.forget(*this);
    return std::nullopt;
}

void held_syn::repeated(const packet& syn) {
    const auto now = steady::now();
    pause_ = now - seen_;
    seen_ = now;
    // Established: the SYN that was put back, or its answer, got lost. While connecting there is nothing to say yet; a
    // different sequence number then means that the port is used anew, and the old SYN's answer will clear that up.
    if (established_ && is_same(syn)) side_.cage().write(syn_);
}

void held_syn::refuse() {
    if (connecting()) side_.cage().answer_syn(key_, unreachable::denied, syn_, sequence_);
    side_.forget(*this);
}

bool held_syn::overdue(steady::time_point now) const noexcept {
    const auto expected = std::max<steady::duration>(3 * pause_, std::chrono::seconds(3));
    return connecting() && now - seen_ > expected;
}

unique_fd held_syn::take_upstream() noexcept {
    owns_fds_ = false; // they are the flow's from here on
    return std::move(upstream_);
}

void held_syn::abandon() {
    abandoned_ = true;
    side_.cage().core().timers.drop(*this);
    connected_.cancel();
}

} // namespace pinfold
