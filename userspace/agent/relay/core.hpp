// What all cages of one relay share: the ring, the check, the limits, the buffers, the fds.
#pragma once

#include "agent/relay/closer.hpp"
#include "agent/relay/endpoint.hpp"
#include "agent/relay/packet.hpp"
#include "agent/relay/relay.hpp"
#include "agent/relay/turns.hpp"
#include "ring/deadlines.hpp"

#include <map>
#include <memory>
#include <span>

namespace pinfold {

// TCP data is peeked into a chunk, sent, and only then taken out of the receive queue: one chunk for all flows, and it
// stays in the processor's cache.
inline constexpr std::size_t chunk_size = 256 * 1024;

// The agent's fds, shared so that no cage can take them all: a cage may hold as many as are still free (so one alone
// gets half, and whoever comes later still finds some).
class fd_budget {
public:
    explicit fd_budget(std::size_t limit) : limit_(limit) {}

    [[nodiscard]] bool take(std::size_t& of_cage, std::size_t count) noexcept;
    void give(std::size_t& of_cage, std::size_t count) noexcept;

private:
    std::size_t limit_;
    std::size_t used_ = 0;
};

// Raises the soft limit of open files to the hard one; what the relay may use of it.
[[nodiscard]] std::size_t relay_fd_limit();

// Pages that come into being when they are touched: an idle relay has none of them.
class lazy_memory {
public:
    explicit lazy_memory(std::size_t size);
    lazy_memory(const lazy_memory&) = delete;
    lazy_memory& operator=(const lazy_memory&) = delete;
    ~lazy_memory();

    [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }

private:
    std::span<std::byte> bytes_;
};

struct relay_core {
    relay_core(uring& which, destination_check judge, relay_limits most);

    uring& ring;
    destination_check check;
    relay_limits limits;
    turns schedule;
    deadlines timers;
    closer closing;
    fd_budget fds;
    flow_hash hash;
    // Used within one call only, by whoever has the turn.
    lazy_memory chunk;    // TCP data on its way through
    lazy_memory incoming; // a packet from a tun
    lazy_memory outgoing; // a packet to a tun, or to a ping socket
    std::map<std::uint16_t, gateway_service> services;
    refusal_listener refusals;
    bool ping_reported = false;
};

} // namespace pinfold
