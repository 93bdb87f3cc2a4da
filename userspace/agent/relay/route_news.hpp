// Tells when the machine's routes, rules, addresses or links have changed: what is open is judged again then.
#pragma once

#include "agent/relay/watch.hpp"
#include "base/unique_fd.hpp"

#include <functional>

namespace pinfold {

// The kernel tells of an IPv6 route before lookups find it (net/ipv6/ip6_fib.c, fib6_add_rt2node(): the notice goes
// out, then RTN_RTINFO is set; 6.1 to 6.18), and who asks in between gets the old one. Both happen under the table's
// lock, and so does the walk of a dump.
class route_writers {
public:
    route_writers(); // of the calling thread's network namespace; throws std::system_error
    // Returns when the routes that the kernel has told of are in force.
    void wait() noexcept;

private:
    unique_fd socket_;
};

class route_news final : public watcher {
public:
    // Of the network namespace that the calling thread is in. Throws std::system_error.
    route_news(uring& ring, std::function<void()> changed);
    route_news(const route_news&) = delete;
    route_news& operator=(const route_news&) = delete;
    ~route_news() = default; // only after ended()

    void stop();
    [[nodiscard]] bool ended() const noexcept { return !readable_.armed(); }

private:
    void woken(watch&) noexcept override;
    void drain() noexcept;

    unique_fd socket_;
    route_writers writers_;
    watch readable_;
    std::function<void()> changed_;
    bool stopping_ = false;
};

} // namespace pinfold
