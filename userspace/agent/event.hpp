// What a coroutine waits for that is no operation of the ring: something happened, a turn on a socket, a deadline.
#pragma once

#include "ring/uring.hpp"

#include <chrono>
#include <coroutine>
#include <deque>
#include <vector>

namespace pinfold {

// Set once, by anybody; whoever waited goes on at once, in the setter's call.
class event {
public:
    class waiter {
    public:
        virtual void notify() noexcept = 0;

    protected:
        ~waiter() = default;
    };

    event() = default;
    event(const event&) = delete;
    event& operator=(const event&) = delete;
    ~event() = default;

    void set() noexcept {
        set_ = true;
        pulse();
    }
    // Wakes whoever waits now, and is not set after it: they look again at what they wait for.
    void pulse() noexcept {
        const std::vector<waiter*> waiting = std::exchange(waiters_, {}); // a waiter may destroy the event
        for (waiter* one : waiting) one->notify();
    }
    void reset() noexcept { set_ = false; }
    [[nodiscard]] bool is_set() const noexcept { return set_; }

    void add(waiter& one) { waiters_.push_back(&one); }
    void forget(waiter& one) noexcept { std::erase(waiters_, &one); }

    class [[nodiscard]] awaiter final : public waiter {
    public:
        explicit awaiter(event& on) : on_(on) {}
        [[nodiscard]] bool await_ready() const noexcept { return on_.is_set(); }
        void await_suspend(std::coroutine_handle<> caller) {
            caller_ = caller;
            on_.add(*this);
        }
        void await_resume() const noexcept {}
        void notify() noexcept override { caller_.resume(); }

    private:
        event& on_;
        std::coroutine_handle<> caller_;
    };
    [[nodiscard]] awaiter wait() { return awaiter(*this); }

private:
    std::vector<waiter*> waiters_;
    bool set_ = false;
};

// Waits for an event, but not longer than this: true when the event came.
class [[nodiscard]] wait_within final : public completion, public event::waiter {
public:
    wait_within(uring& ring, event& on, std::chrono::nanoseconds limit)
        : ring_(ring),
          on_(on),
          limit_{.tv_sec = limit / std::chrono::seconds(1),
                 .tv_nsec = (limit % std::chrono::seconds(1)).count()} {}
    wait_within(const wait_within&) = delete;
    wait_within& operator=(const wait_within&) = delete;
    ~wait_within() = default;

    [[nodiscard]] bool await_ready() const noexcept { return on_.is_set(); }
    void await_suspend(std::coroutine_handle<> caller) {
        caller_ = caller;
        on_.add(*this);
        io_uring_prep_timeout(&ring_.prepare(*this), &limit_, 0, 0);
    }
    [[nodiscard]] bool await_resume() const noexcept { return came_ || caller_ == nullptr; }

    // The timer is still in flight, so the caller goes on only when its completion has come.
    void notify() noexcept override {
        came_ = true;
        io_uring_prep_timeout_remove(&ring_.prepare_unwatched(),
                                     reinterpret_cast<__u64>(static_cast<completion*>(this)), 0);
    }
    void complete(int /*result*/, unsigned /*flags*/) noexcept override {
        if (!came_) on_.forget(*this);
        caller_.resume();
    }

private:
    uring& ring_;
    event& on_;
    __kernel_timespec limit_;
    std::coroutine_handle<> caller_;
    bool came_ = false;
};

// One coroutine at a time; the others wait their turn in order. `turn` gives it on when it goes out of scope.
class one_by_one {
public:
    class [[nodiscard]] turn {
    public:
        explicit turn(one_by_one* of) : of_(of) {}
        turn(turn&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
        turn(const turn&) = delete;
        turn& operator=(const turn&) = delete;
        turn& operator=(turn&&) = delete;
        ~turn() {
            if (of_ != nullptr) of_->next();
        }

    private:
        one_by_one* of_;
    };

    [[nodiscard]] auto take() {
        struct awaiter {
            one_by_one& of;
            [[nodiscard]] bool await_ready() const noexcept { return !std::exchange(of.taken_, true); }
            void await_suspend(std::coroutine_handle<> caller) { of.waiting_.push_back(caller); }
            turn await_resume() const noexcept { return turn(&of); }
        };
        return awaiter{*this};
    }

private:
    void next() noexcept {
        if (waiting_.empty()) {
            taken_ = false;
            return;
        }
        const std::coroutine_handle<> first = waiting_.front();
        waiting_.pop_front();
        first.resume();
    }

    std::deque<std::coroutine_handle<>> waiting_;
    bool taken_ = false;
};

} // namespace pinfold
