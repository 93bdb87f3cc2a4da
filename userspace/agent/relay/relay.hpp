// The relay: the only way out of a cage. It reads the cage's tun and listener, asks the destination check, and opens
// the upstream sockets itself, in the machine's namespace and as the owner.
#pragma once

#include "base/unique_fd.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace pinfold {

class uring;
struct endpoint;
enum class cage_mode : std::uint8_t;

// The second wall: may this cage send to this destination? `rule` is enum pinfold_rule, 0 = yes.
using destination_check = std::function<std::uint32_t(cage_mode, int protocol, const endpoint&)>;

// The check of the product: address.h, then the kernel's own matching route (RTM_GETROUTE with FIB_MATCH), so that a
// route that appeared a moment ago counts. Local or unanswered = refused.
[[nodiscard]] destination_check machine_destinations();

// What the relay refused: the guards did not see it (a ping), or did not know yet that it is local. Beside the counters,
// so that no refusal is without a record.
struct relay_refusal {
    std::uint64_t cage = 0;
    std::uint32_t act = 0;  // enum pinfold_act
    std::uint32_t rule = 0; // enum pinfold_rule
    int protocol = 0;       // IPPROTO_*
    const endpoint* to = nullptr;
};
using refusal_listener = std::function<void(const relay_refusal&)>;

struct relay_limits { // per cage
    std::uint32_t tcp_flows = 4096;
    std::uint32_t pending = 512;    // held SYNs
    std::uint32_t udp_flows = 1024; // UDP and echo; the oldest idle one makes room
    std::chrono::seconds udp_idle{60};
    std::chrono::seconds dns_idle{10};
    std::chrono::seconds unaccepted{5};
};

struct relay_cage {
    std::uint64_t id = 0;
    cage_mode mode{};
    unique_fd tun;
    unique_fd listener;
    std::vector<std::string>
        resolvers; // of the machine, numeric, port 53: where 192.0.0.1:53 leads; none when sealed
};

// A TCP port of 192.0.0.1 that the agent answers itself. Nobody dials it anywhere.
struct gateway_service {
    std::uint16_t port = 0;
    bool for_sealed = false; // else sealed cages are refused
    // A connection of that cage: blocking, close-on-exec, TCP_NODELAY. It counts against the cage no longer.
    std::function<void(std::uint64_t cage, unique_fd connection)> accepted;
};

struct relay_figures {
    std::uint64_t tcp_flows = 0, pending = 0, udp_flows = 0;        // now
    std::uint64_t opened = 0, refused = 0, failed = 0, dropped = 0; // since the start
    std::uint64_t bytes_up = 0, bytes_down = 0;
};

class relay {
public:
    relay(uring& ring, destination_check check, relay_limits limits = {});
    relay(const relay&) = delete;
    relay& operator=(const relay&) = delete;
    ~relay();

    void add(relay_cage cage);       // served from here on
    void remove(std::uint64_t cage); // its flows are reset, its fds closed
    [[nodiscard]] relay_figures figures(std::uint64_t cage) const;
    void offer(gateway_service service);     // to the SYNs from here on
    void tell_refusals(refusal_listener to); // each one, from here on; called between two packets
    [[nodiscard]] bool serves(std::uint64_t cage) const;
    // Whether anything answers this cage at that port of 192.0.0.1.
    [[nodiscard]] bool answers_at_gateway(std::uint64_t cage, int protocol, std::uint16_t port) const;

private:
    struct parts; // NOLINT(cppcoreguidelines-virtual-class-destructor): it is final, see relay.cpp
    std::unique_ptr<parts> parts_;
};

} // namespace pinfold
