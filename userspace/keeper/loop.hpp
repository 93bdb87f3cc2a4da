// The keeper's event loop: epoll and callbacks. No ring: root needs none of its speed, and epoll opens nothing.
#pragma once

#include "base/unique_fd.hpp"

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace pinfold {

class loop {
public:
    loop();

    using handler = std::function<void(std::uint32_t events)>;
    // `events` as epoll_ctl(2) takes them; the fd must be watched for as long as it is open.
    void watch(int fd, std::uint32_t events, handler on_event);
    void change(int fd, std::uint32_t events);
    void forget(int fd);                   // before it is closed; allowed from within a handler
    void later(std::function<void()> act); // when the current handlers are done

    // Done again and again while nothing else happens, until it says false; asked anew after each event.
    void when_idle(std::function<bool()> act) { when_idle_ = std::move(act); }

    void run();
    void stop() noexcept { stopped_ = true; }

private:
    unique_fd epoll_;
    std::unordered_map<int, std::pair<std::uint64_t, handler>> watched_;
    std::vector<std::function<void()>> later_;
    std::uint64_t next_ = 1; // tells a reused fd number from the one an event was meant for
    std::function<bool()> when_idle_;
    bool stopped_ = false;
};

} // namespace pinfold
