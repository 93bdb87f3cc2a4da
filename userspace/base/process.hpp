// A child process held by its pidfd: the number can be reused, the descriptor cannot.
#pragma once

#include "base/unique_fd.hpp"

#include <chrono>
#include <optional>
#include <sys/types.h>

namespace pinfold {

// How a process ended, as a shell says it: 0 to 255, or 128 + the signal.
struct exit_status {
    int code = 0;
    bool by_signal = false;
};

class process {
public:
    process() noexcept = default;
    process(pid_t pid, unique_fd pidfd) noexcept : pid_(pid), pidfd_(std::move(pidfd)) {}
    process(process&& other) noexcept : pid_(std::exchange(other.pid_, 0)), pidfd_(std::move(other.pidfd_)) {}
    process& operator=(process&& other) noexcept {
        process taken(std::move(other)); // the child that was held ends here, not with `other`
        std::swap(pid_, taken.pid_);
        std::swap(pidfd_, taken.pidfd_);
        return *this;
    }
    process(const process&) = delete;
    process& operator=(const process&) = delete;
    ~process(); // a child that is still there is killed and reaped

    [[nodiscard]] pid_t pid() const noexcept { return pid_; }
    [[nodiscard]] int pidfd() const noexcept { return pidfd_.get(); } // readable when it has ended
    [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(pidfd_); }

    // Neither killed nor reaped when this object goes: it lives on without us.
    void let_go() noexcept { pidfd_.reset(); }

    // Sends a signal; false when it has already ended.
    bool signal(int number) const;
    // Reaps it if it has ended. Nothing while it runs. An adopted process is nobody's child: its status is unknown.
    [[nodiscard]] std::optional<exit_status> try_reap();
    // Waits at most `limit` for its end and reaps it.
    [[nodiscard]] std::optional<exit_status> reap_within(std::chrono::milliseconds limit);

private:
    pid_t pid_ = 0;
    unique_fd pidfd_;
};

// A pidfd for a process of this machine; nothing where there is none.
[[nodiscard]] unique_fd open_pidfd(pid_t pid);
int send_signal(int pidfd, int number) noexcept; // 0 or -1 with errno

} // namespace pinfold
