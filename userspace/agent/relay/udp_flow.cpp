#include "agent/relay/udp_flow.hpp"

#include "agent/relay/packet_headers.hpp"
#include "agent/relay/served_cage.hpp"
#include "agent/relay/socket_options.hpp"
#include "agent/relay/udp.hpp"

#include <algorithm>
#include <poll.h>

namespace pinfold {

namespace {

constexpr std::uint16_t dns_port = 53;
constexpr std::chrono::seconds resolver_patience{2}; // then the next one is asked, too

unreachable icmp_for(int error) {
    switch (error) {
    case ECONNREFUSED: return unreachable::port;
    case ENETUNREACH: return unreachable::network;
    case EACCES:
    case EPERM: return unreachable::denied;
    default: return unreachable::host;
    }
}

} // namespace

udp_flow::upstream::upstream(udp_flow& flow, unique_fd opened, endpoint where)
    : socket(std::move(opened)),
      to(where),
      readable(flow.side_.cage().core().ring, *this, POLLIN),
      flow_(flow) {}

udp_flow::udp_flow(udp_side& side, const flow_key& key, bool to_resolver)
    : side_(side), key_(key), used_(steady::now()), to_resolver_(to_resolver) {}

udp_flow::~udp_flow() {
    if (!upstreams_.empty()) side_.cage().give_fds(upstreams_.size());
}

int udp_flow::open(const endpoint& to) {
    if (!side_.take_fd(*this)) return EMFILE;
    const bool v4 = to.is_v4();
    const bool echo = key_.protocol != IPPROTO_UDP;
    const int protocol = !echo ? int{IPPROTO_UDP} : int{icmp_protocol(v4)};
    unique_fd opened(::socket(to.family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol));
    int error = opened ? 0 : errno;
    if (echo && error == EACCES) side_.report_no_ping(error);
    sockaddr_storage name{};
    const socklen_t size = to.write(name);
    if (error == 0 && !v4 && !set_option(opened.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1)) error = errno;
    if (error == 0 && ::connect(opened.get(), reinterpret_cast<const sockaddr*>(&name), size) < 0)
        error = errno;
    if (error != 0) {
        side_.cage().give_fds(1);
        return error;
    }
    upstreams_.push_back(std::make_unique<upstream>(*this, std::move(opened), to));
    upstreams_.back()->readable.arm(upstreams_.back()->socket.get());
    return 0;
}

void udp_flow::send(const packet& from) {
    used_ = steady::now();
    if (upstreams_.empty()) {
        relay_core& core = side_.cage().core();
        const bool short_lived = key_.destination.port == dns_port;
        core.timers.set(*this, used_ + (short_lived ? core.limits.dns_idle : core.limits.udp_idle));
        const int error = to_resolver_ ? (open_resolver() ? 0 : ECONNREFUSED) : open(key_.destination);
        if (error != 0) return failed(error);
        ++side_.cage().counters().opened;
    }
    if (from.kind == packet_kind::echo) return send_echo(from);
    if (to_resolver_) queries_.hold(from.payload);
    ++out_;
    side_.cage().counters().bytes_up += from.payload.size();
    send_on(from.payload);
}

void udp_flow::send_on(std::span<const std::byte> datagram) {
    const int fd = upstreams_.back()->socket.get();
    if (::send(fd, datagram.data(), datagram.size(), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return;
    const int error = errno;
    if (error == EAGAIN || error == EMSGSIZE || error == ENOBUFS || error == EINVAL) {
        ++side_.cage().counters().dropped; // as on any network
        return;
    }
    if (to_resolver_)
        next_resolver();
    else
        failed(error);
}

void udp_flow::send_echo(const packet& from) {
    send_on(build_echo_request(side_.cage().core().outgoing.bytes(), from));
}

void udp_flow::failed(int error) {
    served_cage& cage = side_.cage();
    ++cage.counters().failed;
    if (cage.may_complain()) cage.answer(key_, icmp_for(error));
    side_.forget(*this);
}

void udp_flow::refuse() {
    served_cage& cage = side_.cage();
    if (cage.may_complain()) cage.answer(key_, unreachable::denied);
    side_.forget(*this);
}

void udp_flow::upstream::woken(watch&) noexcept {
    udp_flow& flow = flow_;
    if (!flow.abandoned_)
        flow.side_.cage().schedule(*this);
    else if (flow.quiet())
        flow.side_.left(flow);
}

bool udp_flow::upstream::work(allowance& left) noexcept {
    const buffer room = payload_room(flow_.side_.cage().core().outgoing.bytes(), flow_.key_);
    while (!left.empty()) {
        const ssize_t size = ::recv(socket.get(), room.data(), room.size(), MSG_DONTWAIT);
        left.spend(size > 0 ? static_cast<std::size_t>(size) : 0);
        if (size >= 0) {
            if (!flow_.answered(room.first(static_cast<std::size_t>(size)))) return false;
        } else if (errno == EAGAIN) {
            readable.arm(socket.get());
            return false;
        } else if (errno != EINTR) {
            const bool present = flow_.upstreams_.back().get() == this;
            if (!flow_.to_resolver_)
                flow_.failed(errno);
            else if (present)
                flow_.next_resolver();
            return false;
        }
    }
    return true;
}

bool udp_flow::answered(std::span<const std::byte> payload) {
    served_cage& cage = side_.cage();
    used_ = steady::now();
    side_.used(*this);
    if (key_.protocol != IPPROTO_UDP) return answered_echo(payload);
    if (to_resolver_ && !queries_.take_answer(payload)) return true;
    ++in_;
    cage.counters().bytes_down += payload.size();
    cage.write(build_udp(cage.core().outgoing.bytes(), key_, payload.size()));
    // glibc asks for A and AAAA on one socket: only when as many answers came as queries went is it over.
    const bool over = to_resolver_ ? queries_.empty() : key_.destination.port == dns_port && in_ >= out_;
    if (over) side_.forget(*this);
    return !over;
}

bool udp_flow::answered_echo(std::span<const std::byte> message) {
    served_cage& cage = side_.cage();
    if (message.size() < icmp_header) return true;
    // A ping socket hands the whole message out, at the place where the payload begins one header later.
    const std::uint16_t sequence = get16(message, 6);
    const buffer whole = cage.core().outgoing.bytes();
    const buffer room = payload_room(whole, key_);
    const std::size_t size = message.size() - icmp_header;
    std::memmove(room.data(), message.data() + icmp_header, size);
    cage.write(build_echo_reply(whole, key_, sequence, size));
    return true;
}

std::optional<steady::time_point> udp_flow::due(steady::time_point now) noexcept {
    const relay_limits& limits = side_.cage().core().limits;
    const auto end = used_ + (key_.destination.port == dns_port ? limits.dns_idle : limits.udp_idle);
    if (now >= end) {
        side_.forget(*this);
        return std::nullopt;
    }
    if (!to_resolver_ || resolvers_tried_ >= side_.cage().resolvers().size()) return end;
    if (now >= asked_ + resolver_patience && !next_resolver()) return std::nullopt;
    return std::min(end, asked_ + resolver_patience);
}

// The present resolver, or the next one that can be opened.
bool udp_flow::open_resolver() {
    served_cage& cage = side_.cage();
    const std::size_t count = cage.resolvers().size();
    while (resolvers_tried_ < count) {
        ++resolvers_tried_;
        if (open(cage.resolvers()[cage.first_resolver % count]) == 0) {
            asked_ = steady::now();
            cage.core().timers.set(*this, asked_ + resolver_patience);
            return true;
        }
        ++cage.first_resolver;
    }
    return false;
}

// The present one refused or kept silent: its unanswered queries go to the next. The old socket stays, for an answer that
// is only late.
bool udp_flow::next_resolver() {
    served_cage& cage = side_.cage();
    const bool more = resolvers_tried_ < cage.resolvers().size();
    if (more) ++cage.first_resolver;
    if (!more || !open_resolver()) {
        failed(ECONNREFUSED);
        return false;
    }
    const int fd = upstreams_.back()->socket.get();
    for (const auto& query : queries_.all())
        (void)::send(fd, query.data(), query.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    return true;
}

void udp_flow::abandon() {
    abandoned_ = true;
    side_.cage().core().timers.drop(*this);
    for (const auto& each : upstreams_) {
        each->unlink();
        each->readable.cancel();
    }
}

bool udp_flow::quiet() const noexcept {
    return std::ranges::none_of(upstreams_, [](const auto& each) { return each->readable.armed(); });
}

} // namespace pinfold
