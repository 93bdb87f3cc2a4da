// One timer of a ring that is moved, never doubled: nothing is armed while there is nothing to wait for.
#pragma once

#include "ring/uring.hpp"

#include <chrono>
#include <functional>

namespace pinfold {

class alarm_clock final : public completion {
public:
    using clock = std::chrono::steady_clock;

    // `ring_out` is called when the moment has come; it may set the alarm again.
    alarm_clock(uring& ring, std::function<void()> ring_out) : ring_(ring), ring_out_(std::move(ring_out)) {}
    alarm_clock(const alarm_clock&) = delete;
    alarm_clock& operator=(const alarm_clock&) = delete;
    ~alarm_clock() = default; // only when not armed

    // At this moment, or at the earlier one that is already set.
    void no_later_than(clock::time_point moment);
    // Nothing is waited for any more, until it is set again.
    void let_be();
    // Ends it; the owner waits until armed() is false.
    void stop();
    [[nodiscard]] bool armed() const noexcept { return armed_; }

private:
    void complete(int result, unsigned flags) noexcept override;

    uring& ring_;
    std::function<void()> ring_out_;
    clock::time_point moment_;
    __kernel_timespec limit_{};
    bool armed_ = false;
    bool stopped_ = false;
};

} // namespace pinfold
