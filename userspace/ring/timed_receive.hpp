// Receiving with an end.
#pragma once

#include "ring/deadlines.hpp"
#include "ring/uring.hpp"

namespace pinfold {

class [[nodiscard]] timed_receive final : public completion, public timed {
public:
    timed_receive(uring& ring, int fd, std::span<std::byte> into, std::chrono::nanoseconds limit)
        : ring_(ring), fd_(fd), into_(into), limit_(limit) {}
    timed_receive(const timed_receive&) = delete;
    timed_receive& operator=(const timed_receive&) = delete;
    ~timed_receive() = default;

    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> caller) {
        caller_ = caller;
        io_uring_prep_recv(&ring_.prepare(*this), fd_, into_.data(), into_.size(), 0);
        ring_.timers().set(*this, steady::now() + limit_);
    }
    [[nodiscard]] int await_resume() const noexcept {
        return result_ == -ECANCELED && expired_ ? -ETIMEDOUT : result_;
    }

    void complete(int result, unsigned) noexcept override {
        ring_.timers().drop(*this);
        ring_.timers().rest();
        result_ = result;
        caller_.resume();
    }
    std::optional<steady::time_point> due(steady::time_point) noexcept override {
        expired_ = true;
        ring_.cancel(static_cast<completion&>(*this)); // where it has just ended, what came counts
        return std::nullopt;
    }

private:
    uring& ring_;
    int fd_;
    std::span<std::byte> into_;
    std::chrono::nanoseconds limit_;
    std::coroutine_handle<> caller_;
    int result_ = 0;
    bool expired_ = false;
};

// Like receive, but -ETIMEDOUT when nothing came in time.
inline timed_receive receive_within(uring& ring, int fd, std::span<std::byte> into,
                                    std::chrono::nanoseconds limit) {
    return {ring, fd, into, limit};
}

} // namespace pinfold
