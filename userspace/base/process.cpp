#include "base/process.hpp"

#include "base/error.hpp"

#include <csignal>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

namespace pinfold {

process::~process() {
    if (!pidfd_) return;
    (void)send_signal(pidfd_.get(), SIGKILL);
    siginfo_t info{};
    while (::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(pidfd_.get()), &info, WEXITED) < 0 &&
           errno == EINTR) {
    }
}

bool process::signal(int number) const {
    if (!pidfd_ || send_signal(pidfd_.get(), number) == 0) return static_cast<bool>(pidfd_);
    if (errno == ESRCH) return false;
    fail_errno(errno, "send signal {} to process {}", number, pid_);
}

// Only for a process whose pidfd is readable, or a child: for an adopted one waitid answers ECHILD at any time.
std::optional<exit_status> process::try_reap() {
    if (!pidfd_) return exit_status{};
    siginfo_t info{};
    const int result = ::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(pidfd_.get()), &info,
                                WEXITED | WNOHANG);
    if (result < 0 && errno != ECHILD) fail_errno(errno, "wait for process {}", pid_);
    if (result == 0 && info.si_pid == 0) return std::nullopt;
    pidfd_.reset();
    if (result < 0) return exit_status{.code = 255};
    if (info.si_code == CLD_EXITED) return exit_status{.code = info.si_status};
    return exit_status{.code = 128 + info.si_status, .by_signal = true};
}

std::optional<exit_status> process::reap_within(std::chrono::milliseconds limit) {
    pollfd waiting{.fd = pidfd_.get(), .events = POLLIN};
    if (pidfd_ && ::poll(&waiting, 1, static_cast<int>(limit.count())) == 0) return std::nullopt;
    return try_reap();
}

unique_fd open_pidfd(pid_t pid) {
    return unique_fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

int send_signal(int pidfd, int number) noexcept {
    return static_cast<int>(::syscall(SYS_pidfd_send_signal, pidfd, number, nullptr, 0));
}

} // namespace pinfold
