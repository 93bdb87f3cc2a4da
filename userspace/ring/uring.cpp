#include "ring/uring.hpp"

#include "ring/deadlines.hpp"

#include <algorithm>
#include <cassert>

namespace pinfold {

namespace {

constexpr unsigned completions_per_entry = 16;

__kernel_timespec to_timespec(std::chrono::nanoseconds duration) {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(duration);
    return {.tv_sec = seconds.count(), .tv_nsec = (duration - seconds).count()};
}

} // namespace

task_group::~task_group() {
    assert(running_ == 0 && "a task outlived its group");
}

uring::uring(unsigned entries) : timers_(std::make_unique<deadlines>(*this)) {
    io_uring_params parameters{};
    parameters.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE;
    parameters.cq_entries = entries * completions_per_entry;
    check_negative(io_uring_queue_init_params(entries, &ring_, &parameters),
                   "set up an io_uring with {} entries (kernel 6.1 or later; see kernel.io_uring_disabled)",
                   entries);
    io_uring_register_ring_fd(&ring_); // saves a look at the table of fds for each call; works without it too
}

uring::~uring() {
    io_uring_queue_exit(&ring_);
}

io_uring_sqe& uring::prepare(completion& receiver) {
    io_uring_sqe& sqe = prepare_unwatched();
    io_uring_sqe_set_data(&sqe, &receiver);
    ++in_flight_;
    return sqe;
}

io_uring_sqe& uring::prepare_unwatched() {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    while (sqe == nullptr) {
        submit(false);
        sqe = io_uring_get_sqe(&ring_);
        // Kernels before 6.2 refuse submissions (EBUSY) while completions overflow: make room, hand them out later.
        for (arrival next{}; sqe == nullptr && take(next);) put_off_.push_back(next);
    }
    // The prep functions of liburing keep user_data, so it can be set before them.
    io_uring_sqe_set_data(sqe, nullptr);
    return *sqe;
}

void uring::run() {
    while (!stopped_) run_once(true);
}

void uring::run_once(bool wait) {
    submit(wait && deferred_.empty() && put_off_.empty() && idle_.empty());
    bool idle = deferred_.empty() && put_off_.empty();
    std::vector<arrival> earlier;
    earlier.swap(put_off_);
    for (const arrival& each : earlier) each.receiver->complete(each.result, each.flags);
    for (arrival next{}; take(next); idle = false) next.receiver->complete(next.result, next.flags);
    run_all(deferred_);
    if (idle) run_all(idle_);
}

void uring::submit(bool wait) {
    const int result = wait ? io_uring_submit_and_wait(&ring_, 1) : io_uring_submit_and_get_events(&ring_);
    if (result < 0 && result != -EINTR && result != -EAGAIN && result != -EBUSY && result != -ETIME)
        fail_errno(-result, "wait for completions of the io_uring");
}

bool uring::take(arrival& next) noexcept {
    io_uring_cqe* cqe = nullptr;
    while (io_uring_peek_cqe(&ring_, &cqe) == 0) {
        next = {static_cast<completion*>(io_uring_cqe_get_data(cqe)), cqe->res, cqe->flags};
        io_uring_cqe_seen(&ring_, cqe); // before the receiver runs: it may fill the ring again
        if (next.receiver == nullptr) continue;
        if ((next.flags & IORING_CQE_F_MORE) == 0) --in_flight_;
        return true;
    }
    return false;
}

void uring::run_all(std::vector<deferred*>& queue) noexcept {
    running_.swap(queue);
    for (deferred* work : running_) {
        if (work == nullptr) continue; // forgotten meanwhile
        work->queued_ = false;
        work->run();
    }
    running_.clear();
}

void uring::defer(deferred& work) {
    if (work.queued_) return;
    deferred_.push_back(&work);
    work.queued_ = true;
}

void uring::when_idle(deferred& work) {
    if (work.queued_) return;
    idle_.push_back(&work);
    work.queued_ = true;
}

void uring::forget(deferred& work) noexcept {
    std::erase(deferred_, &work);
    std::erase(idle_, &work);
    std::ranges::replace(running_, &work, nullptr); // it is being walked
    work.queued_ = false;
}

void uring::cancel(int fd) {
    io_uring_prep_cancel_fd(&prepare_unwatched(), fd, IORING_ASYNC_CANCEL_ALL);
}

void uring::cancel(completion& receiver) {
    io_uring_prep_cancel(&prepare_unwatched(), &receiver, 0);
}

task<int> sleep_for(uring& ring, std::chrono::nanoseconds duration) {
    __kernel_timespec limit = to_timespec(duration);
    co_return co_await operation(ring, [&](io_uring_sqe& sqe) { io_uring_prep_timeout(&sqe, &limit, 0, 0); });
}

task<int> write_all(uring& ring, int fd, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const int written = co_await write_some(ring, fd, bytes);
        if (written < 0) co_return written;
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    co_return 0;
}

} // namespace pinfold
