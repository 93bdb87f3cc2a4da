#include "agent/denial_log.hpp"

#include <algorithm>
#include <ctime>
#include <utility>

namespace pinfold {

namespace {

std::uint64_t nanoseconds(clockid_t clock) {
    timespec now{};
    ::clock_gettime(clock, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

} // namespace

void denial_log::add(const pinfold_denial& what, std::string cage, const char* wall, bool scratch) {
    // The kernel stamps with the time since boot, people read dates.
    const std::uint64_t boot = nanoseconds(CLOCK_BOOTTIME);
    const std::uint64_t age = boot > what.time_ns ? boot - what.time_ns : 0;
    entries_.push_back({.number = ++last_number_,
                        .what = what,
                        .cage = std::move(cage),
                        .wall = wall,
                        .scratch = scratch,
                        .unix_nanoseconds = nanoseconds(CLOCK_REALTIME) - age});
    if (entries_.size() > kept) entries_.pop_front();
}

void denial_log::add_of_relay(const pinfold_denial& what, std::string cage) {
    constexpr unsigned most_a_second = 50;
    constexpr std::uint64_t nanoseconds_a_second = 1'000'000'000;
    if (std::exchange(second_, what.time_ns / nanoseconds_a_second) != second_) in_second_.clear();
    if (++in_second_[what.cage] <= most_a_second)
        add(what, std::move(cage), "relay");
    else
        ++untold_;
}

std::uint64_t denial_log::count(std::uint64_t cage) const {
    return static_cast<std::uint64_t>(
        std::ranges::count_if(entries_, [&](const denial_entry& each) { return each.what.cage == cage; }));
}

} // namespace pinfold
