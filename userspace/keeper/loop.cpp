#include "keeper/loop.hpp"

#include "base/error.hpp"

#include <array>
#include <sys/epoll.h>
#include <utility>

namespace pinfold {

namespace {

constexpr std::size_t events_at_once = 64;
constexpr int idle_after_ms = 10;

// An fd number and the generation it was watched in, in the 64 bits that epoll gives back.
std::uint64_t token(int fd, std::uint64_t generation) {
    return generation << 32 | static_cast<std::uint32_t>(fd);
}

} // namespace

loop::loop() : epoll_(check(::epoll_create1(EPOLL_CLOEXEC), "make the event loop")) {}

void loop::watch(int fd, std::uint32_t events, handler on_event) {
    const std::uint64_t generation = next_++ & 0xffffffff;
    epoll_event wanted{.events = events, .data = {.u64 = token(fd, generation)}};
    check(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &wanted), "watch fd {}", fd);
    watched_[fd] = {generation, std::move(on_event)};
}

void loop::change(int fd, std::uint32_t events) {
    epoll_event wanted{.events = events, .data = {.u64 = token(fd, watched_.at(fd).first)}};
    check(::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &wanted), "watch fd {} for something else", fd);
}

void loop::forget(int fd) {
    if (watched_.erase(fd) != 0) (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void loop::later(std::function<void()> act) {
    later_.push_back(std::move(act));
}

void loop::run() {
    std::array<epoll_event, events_at_once> ready{};
    bool idle_work = static_cast<bool>(when_idle_);
    while (!stopped_) {
        const int patience = !later_.empty() ? 0 : idle_work ? idle_after_ms : -1;
        const int count = ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), patience);
        if (count < 0 && errno != EINTR) fail_errno(errno, "wait for events");
        if (count == 0 && idle_work && later_.empty())
            idle_work = when_idle_();
        else if (count > 0)
            idle_work = static_cast<bool>(when_idle_);
        for (int i = 0; i < count; ++i) {
            const std::uint64_t data = ready[static_cast<std::size_t>(i)].data.u64;
            const auto found = watched_.find(static_cast<int>(data & 0xffffffff));
            if (found == watched_.end() || found->second.first != data >> 32) continue; // forgotten meanwhile
            const handler act = found->second.second; // a copy: the handler may forget itself
            act(ready[static_cast<std::size_t>(i)].events);
        }
        for (const auto& act : std::exchange(later_, {})) act();
    }
}

} // namespace pinfold
