// Coroutines of the agent: task<T> is lazy and owned, task_group runs tasks beside their starter.
#pragma once

#include <coroutine>
#include <exception>
#include <functional>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace pinfold {

template <typename T>
class task;

namespace detail {

struct final_awaiter {
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <typename Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> finished) noexcept {
        const std::coroutine_handle<> next = finished.promise().continuation;
        return next ? next : std::noop_coroutine();
    }
    void await_resume() const noexcept {}
};

struct promise_base {
    std::coroutine_handle<> continuation;
    std::exception_ptr error;

    [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
    [[nodiscard]] final_awaiter final_suspend() const noexcept { return {}; }
    void unhandled_exception() noexcept { error = std::current_exception(); }
};

template <typename T>
struct promise : promise_base {
    std::optional<T> value;

    task<T> get_return_object() noexcept;
    template <typename U>
    void return_value(U&& result) {
        value.emplace(std::forward<U>(result));
    }
    T take() {
        if (error) std::rethrow_exception(error);
        return std::move(
            *value); // NOLINT(bugprone-unchecked-optional-access): a frame that ends has one of the two
    }
};

template <>
struct promise<void> : promise_base {
    task<void> get_return_object() noexcept;
    void return_void() const noexcept {}
    void take() const {
        if (error) std::rethrow_exception(error);
    }
};

} // namespace detail

// Starts when awaited; its frame ends with the task object. The attributes make Clang refuse a task that outlives a
// temporary it refers to.
template <typename T = void>
class [[nodiscard]] [[clang::coro_return_type]] [[clang::coro_lifetimebound]] task {
public:
    using promise_type = detail::promise<T>;

    explicit task(std::coroutine_handle<promise_type> frame) noexcept : frame_(frame) {}
    task(task&& other) noexcept : frame_(std::exchange(other.frame_, {})) {}
    task& operator=(task&& other) noexcept {
        task taken(std::move(other)); // the frame that was held ends here, not with `other`
        std::swap(frame_, taken.frame_);
        return *this;
    }
    task(const task&) = delete;
    task& operator=(const task&) = delete;
    ~task() {
        if (frame_) frame_.destroy();
    }

    auto operator co_await() && noexcept {
        struct awaiter {
            std::coroutine_handle<promise_type> frame;
            [[nodiscard]] bool await_ready() const noexcept { return frame.done(); }
            std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) noexcept {
                frame.promise().continuation = caller;
                return frame;
            }
            T await_resume() { return frame.promise().take(); }
        };
        return awaiter{frame_};
    }

private:
    std::coroutine_handle<promise_type> frame_;
};

namespace detail {
template <typename T>
task<T> promise<T>::get_return_object() noexcept {
    return task<T>(std::coroutine_handle<promise<T>>::from_promise(*this));
}
inline task<void> promise<void>::get_return_object() noexcept {
    return task<void>(std::coroutine_handle<promise<void>>::from_promise(*this));
}
} // namespace detail

// Runs tasks beside their starter. A frame is freed when its task ends; an exception goes to the group's handler.
// The owner stops what the tasks wait for (uring::cancel) and drains the ring before the group is destroyed.
class task_group {
public:
    using error_handler = std::function<void(std::exception_ptr)>;
    explicit task_group(error_handler on_error) : on_error_(std::move(on_error)) {}
    task_group(const task_group&) = delete;
    task_group& operator=(const task_group&) = delete;
    ~task_group();

    // Copies its arguments as std::thread does; what lives longer goes by std::ref.
    template <typename F, typename... Args>
    void spawn(F function, Args... args) {
        start(this, std::move(function), std::move(args)...);
    }

    [[nodiscard]] std::size_t running() const noexcept { return running_; }

private:
    struct detached {
        struct promise_type {
            detached get_return_object() const noexcept { return {}; }
            [[nodiscard]] std::suspend_never initial_suspend() const noexcept { return {}; }
            [[nodiscard]] std::suspend_never final_suspend() const noexcept { return {}; }
            void return_void() const noexcept {}
            void unhandled_exception() const noexcept { std::terminate(); } // start() catches all
        };
    };

    template <typename F, typename... Args>
    static detached start(task_group* group, F function, Args... args) {
        ++group->running_;
        try {
            co_await function(std::move(args)...);
        } catch (...) {
            group->on_error_(std::current_exception());
        }
        --group->running_;
    }

    error_handler on_error_;
    std::size_t running_ = 0;
};

} // namespace pinfold
