#include "ring/alarm.hpp"

namespace pinfold {

void alarm_clock::no_later_than(clock::time_point moment) {
    if (stopped_ || (armed_ && moment_ <= moment)) return;
    const auto since_boot = moment.time_since_epoch(); // CLOCK_MONOTONIC, the ring's default clock
    const auto seconds = std::chrono::floor<std::chrono::seconds>(since_boot);
    limit_ = {.tv_sec = seconds.count(), .tv_nsec = std::chrono::nanoseconds(since_boot - seconds).count()};
    moment_ = moment;
    if (armed_) {
        // If it has just ended the update finds nothing, and the owner sees its end anyway.
        io_uring_prep_timeout_update(&ring_.prepare_unwatched(), &limit_, reinterpret_cast<__u64>(this),
                                     IORING_TIMEOUT_ABS);
        return;
    }
    io_uring_prep_timeout(&ring_.prepare(*this), &limit_, 0, IORING_TIMEOUT_ABS);
    armed_ = true;
}

void alarm_clock::let_be() {
    if (armed_) io_uring_prep_timeout_remove(&ring_.prepare_unwatched(), reinterpret_cast<__u64>(this), 0);
}

void alarm_clock::stop() {
    stopped_ = true;
    let_be();
}

void alarm_clock::complete(int, unsigned) noexcept {
    armed_ = false;
    if (!stopped_) ring_out_();
}

} // namespace pinfold
