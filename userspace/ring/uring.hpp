// One thread, one io_uring: an operation is an awaitable whose address is the user_data of its completion.
#pragma once

#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "ring/task.hpp"

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <liburing.h>
#include <memory>
#include <span>
#include <sys/socket.h>
#include <vector>

namespace pinfold {

// Whoever waits for completions. A multishot receiver gets several calls; IORING_CQE_F_MORE says that more will come.
class completion {
public:
    virtual void complete(int result, unsigned flags) noexcept = 0;

protected:
    ~completion() = default;
};

// Work for the moment when the completions at hand have been handed out. Who defers itself again from run() goes on after
// the next batch, and the ring does not wait until then: so a long piece of work is done in turns.
class deferred {
public:
    virtual void run() noexcept = 0;

protected:
    ~deferred() = default;

private:
    friend class uring;
    bool queued_ = false;
};

class deadlines; // ring/deadlines.hpp

class uring {
public:
    // `entries` is the size of the submission queue; the completion queue is 16 times as long. Throws std::system_error.
    explicit uring(unsigned entries = 1024);
    uring(const uring&) = delete;
    uring& operator=(const uring&) = delete;
    ~uring();

    // A submission entry whose completion goes to `receiver`; never null: a full queue is submitted first.
    [[nodiscard]] io_uring_sqe& prepare(completion& receiver);
    // The same for an operation whose completion nobody waits for (a cancel, a close).
    [[nodiscard]] io_uring_sqe& prepare_unwatched();

    // Submits, waits and hands completions out until stop(). run_once() handles one batch; `wait` = block for it. After
    // stop() it still does, for whoever has to see the end of what it cancelled.
    void run();
    void run_once(bool wait);
    void stop() noexcept { stopped_ = true; }
    [[nodiscard]] bool stopped() const noexcept { return stopped_; }

    void defer(deferred& work);
    // For what nobody waits for: run once, when a look at the ring finds no completion.
    void when_idle(deferred& work);
    void forget(deferred& work) noexcept; // before its end, if it may still be queued

    // Ends every operation in flight on this fd with ECANCELED (looks at all operations of the ring).
    void cancel(int fd);
    // Ends the one operation that reports to this receiver, found by its hash: for whoever has thousands.
    void cancel(completion& receiver);
    // Operations whose completion has not come yet (a multishot one counts until its last, the timer
    // behind timers() while it is set).
    [[nodiscard]] std::size_t in_flight() const noexcept { return in_flight_; }

    // What ends operations that take too long. One timer for all: a time-out linked to each operation costs the kernel as
    // much as the operation.
    [[nodiscard]] deadlines& timers() noexcept { return *timers_; }

    [[nodiscard]] io_uring& raw() noexcept { return ring_; }

private:
    struct arrival {
        completion* receiver;
        int result;
        unsigned flags;
    };

    void submit(bool wait);
    bool take(arrival& next) noexcept;
    void run_all(std::vector<deferred*>& queue) noexcept;

    io_uring ring_{};
    std::vector<arrival> put_off_; // taken from a full ring in the middle of a batch
    std::vector<deferred*> deferred_, idle_, running_;
    std::size_t in_flight_ = 0;
    bool stopped_ = false;
    std::unique_ptr<deadlines> timers_;
};

// An awaitable single-shot operation; its value is the result or -errno.
template <typename Prepare>
class [[nodiscard]] operation final : public completion {
public:
    operation(uring& ring, Prepare prepare) : ring_(ring), prepare_(std::move(prepare)) {}
    operation(const operation&) = delete;
    operation& operator=(const operation&) = delete;
    ~operation() = default;

    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> caller) {
        caller_ = caller;
        prepare_(ring_.prepare(*this));
    }
    [[nodiscard]] int await_resume() const noexcept { return result_; }

    void complete(int result, unsigned) noexcept override {
        result_ = result;
        caller_.resume();
    }

private:
    uring& ring_;
    Prepare prepare_;
    std::coroutine_handle<> caller_;
    int result_ = 0;
};

// Each of these is awaited: `int result = co_await receive(…)`. Buffers must live until then.
inline auto receive(uring& ring, int fd, std::span<std::byte> into, int flags = 0) {
    return operation(
        ring, [=](io_uring_sqe& sqe) { io_uring_prep_recv(&sqe, fd, into.data(), into.size(), flags); });
}
inline auto send(uring& ring, int fd, std::span<const std::byte> from, int flags = MSG_NOSIGNAL) {
    return operation(
        ring, [=](io_uring_sqe& sqe) { io_uring_prep_send(&sqe, fd, from.data(), from.size(), flags); });
}
// For pipes, ptys and files.
inline auto read_some(uring& ring, int fd, std::span<std::byte> into) {
    return operation(ring, [=](io_uring_sqe& sqe) {
        io_uring_prep_read(&sqe, fd, into.data(), static_cast<unsigned>(into.size()), static_cast<__u64>(-1));
    });
}
inline auto write_some(uring& ring, int fd, std::span<const std::byte> from) {
    return operation(ring, [=](io_uring_sqe& sqe) {
        io_uring_prep_write(&sqe, fd, from.data(), static_cast<unsigned>(from.size()),
                            static_cast<__u64>(-1));
    });
}
inline auto accept(uring& ring, int fd, int flags = SOCK_CLOEXEC) {
    return operation(ring,
                     [=](io_uring_sqe& sqe) { io_uring_prep_accept(&sqe, fd, nullptr, nullptr, flags); });
}
inline auto connect(uring& ring, int fd, const sockaddr* to, socklen_t size) {
    return operation(ring, [=](io_uring_sqe& sqe) { io_uring_prep_connect(&sqe, fd, to, size); });
}
// The events that came, as poll(2) names them.
inline auto poll_once(uring& ring, int fd, unsigned events) {
    return operation(ring, [=](io_uring_sqe& sqe) { io_uring_prep_poll_add(&sqe, fd, events); });
}
// Sends until all has gone: 0, or -errno of the send that failed. No coroutine of its own: nearly always one send is enough.
class [[nodiscard]] send_all final : public completion {
public:
    send_all(uring& ring, int fd, std::span<const std::byte> bytes) : ring_(ring), fd_(fd), bytes_(bytes) {}
    send_all(const send_all&) = delete;
    send_all& operator=(const send_all&) = delete;
    ~send_all() = default;

    [[nodiscard]] bool await_ready() const noexcept { return bytes_.empty(); }
    void await_suspend(std::coroutine_handle<> caller) {
        caller_ = caller;
        submit();
    }
    [[nodiscard]] int await_resume() const noexcept { return error_; }

    void complete(int result, unsigned) noexcept override {
        if (result < 0) error_ = result;
        bytes_ = bytes_.subspan(result < 0 ? bytes_.size() : static_cast<std::size_t>(result));
        if (bytes_.empty()) return caller_.resume();
        submit();
    }

private:
    void submit() {
        io_uring_prep_send(&ring_.prepare(*this), fd_, bytes_.data(), bytes_.size(), MSG_NOSIGNAL);
    }

    uring& ring_;
    int fd_;
    std::span<const std::byte> bytes_;
    std::coroutine_handle<> caller_;
    int error_ = 0;
};
// -ETIME when the time is over, -ECANCELED when it was cancelled.
task<int> sleep_for(uring& ring, std::chrono::nanoseconds duration);
// All of it, or -errno of the write that failed.
task<int> write_all(uring& ring, int fd, std::span<const std::byte> bytes);

} // namespace pinfold
