#include "agent/relay/tcp_flow.hpp"

#include "agent/relay/served_cage.hpp"
#include "agent/relay/socket_options.hpp"
#include "agent/relay/tcp.hpp"

#include <poll.h>

namespace pinfold {

namespace {
constexpr std::size_t least_reach = 64 * 1024;
}

tcp_flow::direction::direction(tcp_flow& flow, uring& ring, std::uint64_t& counted)
    : readable(ring, flow, POLLIN), writable(ring, flow, POLLOUT), flow_(flow), counted_(counted) {}

tcp_flow::tcp_flow(tcp_side& side, unique_fd inside, unique_fd outside)
    : side_(side),
      inside_(std::move(inside)),
      outside_(std::move(outside)),
      up_(*this, side.cage().core().ring, side.cage().counters().bytes_up),
      down_(*this, side.cage().core().ring, side.cage().counters().bytes_down) {
    up_.from = down_.to = inside_.get();
    up_.to = down_.from = outside_.get();
    up_.readable.arm(up_.from);
    down_.readable.arm(down_.from);
}

void tcp_flow::woken(watch& by) noexcept {
    if (dying_) return free_when_quiet();
    side_.cage().schedule(&by == &up_.readable || &by == &up_.writable ? up_ : down_);
}

// Nothing is ever kept in user space: what is read stays in the socket's queue until it has been sent on. So a flow whose
// receiver is slow costs no memory here, and the kernel's own buffers push back on its sender.
bool tcp_flow::direction::work(allowance& left) noexcept {
    const std::size_t most = std::min(reach_, std::max(left.rest(), least_reach));
    const std::span<std::byte> chunk = flow_.side_.cage().core().chunk.bytes().first(most);
    const ssize_t peeked = ::recv(from, chunk.data(), chunk.size(), MSG_PEEK | MSG_DONTWAIT);
    left.spend(peeked > 0 ? static_cast<std::size_t>(peeked) : 0);
    if (peeked == 0) return end_of_stream();
    if (peeked < 0) {
        if (errno == EAGAIN || errno == EINTR)
            readable.arm(from);
        else
            flow_.reset();
        return false;
    }
    const ssize_t sent = ::send(to, chunk.data(), static_cast<std::size_t>(peeked),
                                MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
        flow_.reset();
        return false;
    }
    if (sent > 0) {
        (void)::recv(from, chunk.data(), static_cast<std::size_t>(sent),
                     MSG_TRUNC | MSG_DONTWAIT); // takes it out
        counted_ += static_cast<std::uint64_t>(sent);
    }
    if (sent < peeked) {
        // What did not fit was copied in vain: try less until the receiver takes all again.
        reach_ = std::max(least_reach, reach_ / 2);
        writable.arm(to);
        return false;
    }
    if (static_cast<std::size_t>(peeked) == chunk.size()) {
        reach_ = std::min(2 * reach_, chunk_size);
        return true;
    }
    readable.arm(from); // probably empty; if not, this completes at once
    return false;
}

bool tcp_flow::direction::end_of_stream() {
    ended = true;
    if (flow_.up_.ended && flow_.down_.ended) return flow_.finish(); // closing says the rest
    ::shutdown(to, SHUT_WR);
    return false;
}

bool tcp_flow::finish() {
    // What was sent may still be on its way: from here on a close must not reset.
    set_reset_on_close(inside_.get(), false);
    set_reset_on_close(outside_.get(), false);
    finished_ = true;
    reset();
    return false;
}

endpoint tcp_flow::destination() const {
    sockaddr_storage name{};
    socklen_t size = sizeof name;
    if (::getsockname(inside_.get(), reinterpret_cast<sockaddr*>(&name), &size) < 0)
        return {}; // which is refused
    return endpoint::from(name, size);
}

void tcp_flow::reset() {
    dying_ = true;
    for (direction* each : {&up_, &down_}) {
        each->unlink();
        each->readable.cancel();
        each->writable.cancel();
    }
    free_when_quiet();
}

void tcp_flow::free_when_quiet() {
    for (const direction* each : {&up_, &down_})
        if (each->readable.armed() || each->writable.armed()) return;
    if (finished_)
        for (unique_fd* each : {&inside_, &outside_}) side_.cage().core().closing.take(std::move(*each));
    side_.free(*this);
}

} // namespace pinfold
