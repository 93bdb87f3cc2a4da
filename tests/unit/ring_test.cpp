#include "ring/alarm.hpp"
#include "ring/timed_receive.hpp"
#include "ring/uring.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <vector>

using namespace std::chrono_literals;

namespace pinfold {

namespace {

using steady = std::chrono::steady_clock;

struct socket_pair {
    socket_pair() {
        int ends[2] = {};
        check(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), "make a socket pair");
        a = unique_fd(ends[0]);
        b = unique_fd(ends[1]);
    }
    unique_fd a, b;
};

// Runs a task to its end, and hands on what it threw.
template <typename F, typename... Args>
void run_in(uring& ring, F function, Args... args) {
    std::exception_ptr error;
    {
        task_group tasks([&](const std::exception_ptr& thrown) { error = thrown; });
        tasks.spawn(function, std::ref(ring), args...);
        while (tasks.running() > 0) ring.run_once(true);
    }
    if (error) std::rethrow_exception(error);
}

} // namespace

TEST_CASE("what is sent is received, through the ring") {
    uring ring;
    const socket_pair pair;
    std::string heard;
    run_in(
        ring,
        [](uring& which, const socket_pair& ends, std::string& into) -> task<> {
            std::array<std::byte, 4096> room{};
            if (co_await send_all(which, ends.a.get(), std::as_bytes(std::span("hello", 5))) < 0) co_return;
            const int size = co_await receive(which, ends.b.get(), room);
            into.assign(reinterpret_cast<const char*>(room.data()),
                        static_cast<std::size_t>(std::max(size, 0)));
        },
        std::cref(pair), std::ref(heard));
    CHECK(heard == "hello");
    CHECK(ring.in_flight() == 0);
}

TEST_CASE("a receive with a limit ends with a time-out, or with what came before it") {
    uring ring;
    const socket_pair pair;
    std::vector<int> results;
    run_in(
        ring,
        [](uring& which, const socket_pair& ends, std::vector<int>& into) -> task<> {
            std::array<std::byte, 16> room{};
            into.push_back(co_await receive_within(which, ends.b.get(), room, 20ms));
            (void)co_await send_all(which, ends.a.get(), std::as_bytes(std::span("abc", 3)));
            into.push_back(co_await receive_within(which, ends.b.get(), room, 10s));
        },
        std::cref(pair), std::ref(results));
    CHECK(results == std::vector<int>{-ETIMEDOUT, 3});
    for (int i = 0; i < 3; ++i) ring.run_once(false);
    CHECK(ring.in_flight() == 0); // no timer is left to wake anybody
}

TEST_CASE("cancelling an fd ends the operations on it, and nothing else") {
    uring ring;
    const socket_pair pair, other;
    std::vector<int> results;
    {
        task_group tasks([](const std::exception_ptr&) {});
        const auto wait = [](uring& which, int fd, std::vector<int>& into) -> task<> {
            into.push_back(co_await poll_once(which, fd, POLLIN));
        };
        tasks.spawn(wait, std::ref(ring), pair.a.get(), std::ref(results));
        tasks.spawn(wait, std::ref(ring), other.a.get(), std::ref(results));
        ring.run_once(false);
        CHECK(ring.in_flight() == 2);
        ring.cancel(pair.a.get());
        while (tasks.running() > 1) ring.run_once(true);
        CHECK(results == std::vector<int>{-ECANCELED});
        CHECK(::send(other.b.get(), "x", 1, 0) == 1);
        while (tasks.running() > 0) ring.run_once(true);
    }
    CHECK(results.back() == POLLIN);
    CHECK(ring.in_flight() == 0);
}

TEST_CASE("one operation is cancelled by its receiver") {
    struct note final : completion {
        void complete(int result, unsigned) noexcept override { results.push_back(result); }
        std::vector<int> results;
    };
    uring ring;
    const socket_pair pair;
    note first, second;
    io_uring_prep_poll_add(&ring.prepare(first), pair.a.get(), POLLIN);
    io_uring_prep_poll_add(&ring.prepare(second), pair.a.get(), POLLIN);
    ring.run_once(false);
    ring.cancel(first);
    while (first.results.empty()) ring.run_once(true);
    CHECK(first.results == std::vector<int>{-ECANCELED});
    CHECK(second.results.empty());
    ring.cancel(second);
    while (ring.in_flight() > 0) ring.run_once(true);
}

TEST_CASE("more operations than the queue holds are all done") {
    uring ring(8);
    int done = 0;
    task_group tasks([](const std::exception_ptr&) {});
    for (int i = 0; i < 1000; ++i)
        tasks.spawn(
            [](uring& which, int& count) -> task<> {
                if (co_await operation(which, [](io_uring_sqe& sqe) { io_uring_prep_nop(&sqe); }) == 0)
                    ++count;
            },
            std::ref(ring), std::ref(done));
    while (tasks.running() > 0) ring.run_once(true);
    CHECK(done == 1000);
    CHECK(ring.in_flight() == 0);
}

TEST_CASE("an exception of a task comes to its group, and of an awaited one to who awaits") {
    uring ring;
    std::string heard;
    task_group tasks([&](const std::exception_ptr& error) {
        try {
            std::rethrow_exception(error);
        } catch (const failure& thrown) {
            heard = thrown.what();
        }
    });
    tasks.spawn(
        [](uring& which) -> task<> {
            co_await [](uring& inner) -> task<> {
                (void)co_await sleep_for(inner, 1ms);
                fail("it broke");
            }(which);
        },
        std::ref(ring));
    while (tasks.running() > 0) ring.run_once(true);
    CHECK(heard == "it broke");
}

TEST_CASE("a hundred thousand awaits in a row do not deepen the stack") {
    uring ring;
    int sum = 0;
    run_in(
        ring,
        [](uring&, int& into) -> task<> {
            for (int i = 0; i < 100'000; ++i) into += co_await []() -> task<int> { co_return 1; }();
        },
        std::ref(sum));
    CHECK(sum == 100'000);
}

TEST_CASE("deferred work runs after the completions, in turns, and the ring does not wait meanwhile") {
    struct counter final : deferred {
        explicit counter(uring& which) : ring(which) {}
        void run() noexcept override {
            if (++turns < 3) ring.defer(*this);
        }
        uring& ring;
        int turns = 0;
    };
    uring ring;
    counter work(ring);
    ring.defer(work);
    ring.defer(work); // twice is once
    for (int i = 1; i <= 3; ++i) {
        ring.run_once(true);
        CHECK(work.turns == i);
    }
    counter forgotten(ring);
    ring.defer(forgotten);
    ring.forget(forgotten);
    ring.run_once(false);
    CHECK(forgotten.turns == 0);
}

TEST_CASE("what nobody waits for is done when a look at the ring finds nothing else, and not before") {
    struct counter final : deferred {
        void run() noexcept override { ++turns; }
        int turns = 0;
    };
    struct once final : completion {
        void complete(int, unsigned) noexcept override { ended = true; }
        bool ended = false;
    };
    uring ring;
    counter idle, forgotten;
    once arrival;
    io_uring_prep_nop(&ring.prepare(arrival));
    ring.when_idle(idle);
    ring.when_idle(forgotten);
    ring.forget(forgotten);
    ring.run_once(true);
    CHECK(arrival.ended);
    CHECK(idle.turns == 0);
    ring.run_once(true); // returns, though no completion will ever come
    CHECK(idle.turns == 1);
    ring.run_once(false);
    CHECK(idle.turns == 1);
    CHECK(forgotten.turns == 0);
}

TEST_CASE("after stop() a ring still hands out the ends of what was cancelled") {
    uring ring;
    const socket_pair pair;
    task_group tasks([](const std::exception_ptr&) {});
    int result = 0;
    tasks.spawn(
        [](uring& which, int fd, int& into) -> task<> { into = co_await poll_once(which, fd, POLLIN); },
        std::ref(ring), pair.a.get(), std::ref(result));
    ring.stop();
    ring.run();
    ring.cancel(pair.a.get());
    while (ring.in_flight() > 0) ring.run_once(true);
    CHECK(result == -ECANCELED);
}

TEST_CASE("an alarm rings once, at the earliest moment it was set to, and arms nothing else") {
    uring ring;
    int rung = 0;
    alarm_clock alarm(ring, [&] { ++rung; });
    const auto begin = steady::now();
    alarm.no_later_than(begin + 10s);
    alarm.no_later_than(begin + 30ms);
    alarm.no_later_than(begin + 20s);
    CHECK(ring.in_flight() == 1);
    while (rung == 0) ring.run_once(true);
    const auto took = steady::now() - begin;
    CHECK(took >= 30ms);
    CHECK(took < 5s);
    CHECK(ring.in_flight() == 0);
    alarm.no_later_than(steady::now() + 10s);
    alarm.stop();
    while (alarm.armed()) ring.run_once(true);
    CHECK(rung == 1);
}

} // namespace pinfold
