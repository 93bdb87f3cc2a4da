#include "agent/relay/served_cage.hpp"

#include "base/error.hpp"
#include "pinfold/denial.h"
#include "spec/cage_spec.hpp"

#include <netinet/in.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

namespace pinfold {

namespace {

constexpr std::uint16_t dns_port = 53;
constexpr std::chrono::microseconds burst_gap{50};

std::vector<endpoint> parse_resolvers(const relay_cage& from) {
    std::vector<endpoint> made;
    if (from.mode != cage_mode::caged)
        return made; // the machine's resolvers know local names: never for sealed cages
    for (const std::string& text : from.resolvers) {
        if (const auto resolver = endpoint::parse(text, dns_port))
            made.push_back(*resolver);
        else
            spdlog::warn("cage {}: the resolver {:?} is not a numeric address and is left out", from.id,
                         text);
    }
    return made;
}

} // namespace

served_cage::tun_reader::tun_reader(served_cage& cage)
    : readable(cage.core_.ring, *this, POLLIN), cage_(cage) {}

void served_cage::tun_reader::woken(watch&) noexcept {
    if (cage_.ending_) return cage_.look_for_end();
    cage_.schedule(*this);
}

// Arming looks at the tun anyway, so a read that finds it empty is spared where no second packet is expected.
bool served_cage::tun_reader::in_burst() noexcept {
    const auto now = steady::now();
    return now - std::exchange(last_, now) < burst_gap;
}

bool served_cage::tun_reader::work(allowance& left) noexcept {
    const std::span<std::byte> room = cage_.core_.incoming.bytes();
    while (!left.empty()) {
        const ssize_t size = ::read(cage_.from_.tun.get(), room.data(), room.size());
        if (size >= 0) {
            left.spend(static_cast<std::size_t>(size), allowance::packet);
            const bool more = in_burst();
            cage_.take(room.first(static_cast<std::size_t>(size)));
            if (cage_.ending_) return false;
            if (more) continue;
            readable.arm(cage_.from_.tun.get());
            return false;
        } else if (errno == EAGAIN) {
            readable.arm(cage_.from_.tun.get());
            return false;
        } else if (errno != EINTR) {
            // The device went with its namespace; polling it again would say so for ever.
            spdlog::warn("cage {}: read its tun: {}; the cage has no network any more", cage_.id(),
                         std::generic_category().message(errno));
            return false;
        }
    }
    return true;
}

served_cage::served_cage(relay_core& core, relay_cage from, std::function<void(served_cage&)> ended)
    : core_(core),
      from_(std::move(from)),
      resolvers_(parse_resolvers(from_)),
      ended_(std::move(ended)),
      reader_(*this),
      tcp_(*this, from_.listener.get()),
      udp_(*this) {
    reader_.readable.arm(from_.tun.get());
    tcp_.listen();
}

void served_cage::end() {
    ending_ = true;
    queue_.unlink();
    reader_.unlink();
    reader_.readable.cancel();
    tcp_.end();
    udp_.end();
    look_for_end();
}

void served_cage::judge_again() {
    tcp_.judge_again();
    udp_.judge_again();
}

void served_cage::look_for_end() {
    if (!ending_ || reader_.readable.armed() || !tcp_.ended() || !udp_.ended()) return;
    if (auto ended = std::exchange(ended_, nullptr)) ended(*this);
}

relay_figures served_cage::figures() const {
    relay_figures now = counters_;
    now.tcp_flows = tcp_.flows();
    now.pending = tcp_.pending();
    now.udp_flows = udp_.flows();
    return now;
}

// The same questions as tcp_side::refuse and udp_side::refuse ask.
bool served_cage::answers_at_gateway(int protocol, std::uint16_t port) const {
    if (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP) return false;
    if (protocol == IPPROTO_TCP) {
        const auto service = core_.services.find(port);
        if (service != core_.services.end() && (from_.mode == cage_mode::caged || service->second.for_sealed))
            return true;
    }
    return port == dns_port && !resolvers_.empty();
}

void served_cage::take(std::span<const std::byte> bytes) {
    const auto read = parse_packet(bytes);
    if (!read) {
        ++counters_.dropped;
        spdlog::trace("cage {}: a packet was dropped: {}", id(), to_string(read.error()));
        return;
    }
    read->kind == packet_kind::syn ? tcp_.take(*read) : udp_.take(*read);
}

void served_cage::write(std::span<const std::byte> whole_packet) {
    if (::write(from_.tun.get(), whole_packet.data(), whole_packet.size()) < 0) ++counters_.dropped;
}

void served_cage::answer(const flow_key& flow, unreachable why, std::span<const std::byte> quoted) {
    const buffer room = core_.outgoing.bytes();
    write(quoted.empty() ? build_unreachable(room, flow, why) : build_unreachable(room, flow, why, quoted));
}

// An ICMP error that comes while connect() still holds its socket only becomes a soft error (LockDroppedIcmps), and the SYN
// is sent again after a second. A reset waits for the lock; it finds no connection where the ICMP error ended it.
void served_cage::answer_syn(const flow_key& flow, unreachable why, std::span<const std::byte> syn,
                             std::uint32_t sequence) {
    answer(flow, why, syn);
    write(build_reset(core_.outgoing.bytes(), flow, sequence));
}

void served_cage::refused(std::uint32_t rule, int protocol, const endpoint& to) {
    ++counters_.refused;
    const std::uint32_t act = protocol == IPPROTO_TCP ? PINFOLD_ACT_CONNECT : PINFOLD_ACT_SEND;
    if (core_.refusals)
        core_.refusals({.cage = id(), .act = act, .rule = rule, .protocol = protocol, .to = &to});
}

bool served_cage::may_complain() noexcept {
    constexpr unsigned most_a_second = 200;
    const auto now = steady::now();
    if (now - complaints_since_ >= std::chrono::seconds(1)) {
        complaints_since_ = now;
        complaints_ = 0;
    }
    return ++complaints_ <= most_a_second;
}

} // namespace pinfold
