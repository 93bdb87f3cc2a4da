// A cage's network namespace: lo and a tun, no other link and no route to anything (reference: held-SYN relay).
#pragma once

#include "base/unique_fd.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

namespace pinfold {

struct cage_network {
    unique_fd
        space; // the namespace; it belongs to the initial user namespace, so root inside has no power over it
    unique_fd tun;      // for the relay
    unique_fd listener; // for the relay: where sk_lookup steers every outgoing TCP connection
};

// A network that no cage has yet: nothing in it depends on the cage, so it can be made ahead. Destroying it ends it.
struct spare_network {
    cage_network network;
    unique_fd steer; // the link of sk_lookup
    unique_fd syn;   // the tcx link; empty where a classic filter serves
};

// The steering programs (sk_lookup, the SYN program), loaded once and pinned below `pins`.
class steering {
public:
    explicit steering(const std::filesystem::path& pins);
    steering(steering&&) noexcept;
    steering(const steering&) = delete;
    steering& operator=(const steering&) = delete;
    steering& operator=(steering&&) = delete;
    ~steering();

    // A new namespace, ready for a cage: addresses, routes, rules, sysctls, programs attached and pinned below
    // cages/<cage>/. The calling thread's own namespace is the same afterwards. Throws std::system_error.
    cage_network make(std::uint64_t cage);

    // The two halves of make(), for a keeper that makes networks while it is idle: all the time is in the first.
    spare_network prepare();
    cage_network make(std::uint64_t cage, spare_network ahead);

    // Unpins the links of a cage.
    void release(std::uint64_t cage);

private:
    struct parts;
    std::unique_ptr<parts> parts_;
};

// A few networks made ahead, while there is nothing else to do: a cold start is 2 ms shorter with one of them.
class spare_networks {
public:
    spare_networks(steering& programs, std::size_t wanted) : programs_(programs), wanted_(wanted) {}

    [[nodiscard]] cage_network make(std::uint64_t cage); // from a spare one, or anew
    // Makes one more where one is missing; false when there are enough.
    bool fill_one();

private:
    steering& programs_;
    std::size_t wanted_;
    std::vector<spare_network> ready_;
};

} // namespace pinfold
