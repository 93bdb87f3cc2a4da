#include "support/tracer.hpp"

#include "base/error.hpp"

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <thread>

namespace pinfold::test {

namespace {

constexpr int system_call_stop = SIGTRAP | 0x80; // with PTRACE_O_TRACESYSGOOD
constexpr std::chrono::microseconds look_again{500};

bool never() {
    return false;
}

} // namespace

tracer::tracer(pid_t pid) : pid_(pid) {
    check(::ptrace(PTRACE_SEIZE, pid_, nullptr, PTRACE_O_TRACESYSGOOD), "trace process {}", pid_);
    check(::ptrace(PTRACE_INTERRUPT, pid_, nullptr, nullptr), "stop process {}", pid_);
    (void)wait_for_stop(never);
}

tracer::~tracer() {
    if (!ended_)
        (void)::ptrace(PTRACE_DETACH, pid_, nullptr, nullptr); // fails where it was killed: it is no more
}

bool tracer::step(int calls, const std::function<bool()>& done) {
    for (int stop = 0; stop < 2 * calls; ++stop) {
        if (ended_ || done()) return false;
        go_on();
        if (!wait_for_stop(done)) return false;
    }
    return true;
}

bool tracer::run_to(long call) {
    for (;;) {
        go_on();
        if (!wait_for_stop(never)) return false;
        __ptrace_syscall_info info{};
        if (::ptrace(static_cast<__ptrace_request>(PTRACE_GET_SYSCALL_INFO), pid_, sizeof info, &info) > 0 &&
            info.op == PTRACE_SYSCALL_INFO_ENTRY && info.entry.nr == static_cast<std::uint64_t>(call))
            return true;
    }
}

void tracer::go_on() {
    // ESRCH: somebody killed it between two stops; the wait that follows says so.
    (void)::ptrace(PTRACE_SYSCALL, pid_, nullptr,
                   static_cast<std::uintptr_t>(pending_)); // NOLINT(performance-no-int-to-ptr)
    pending_ = 0;
}

// True at a stop. A signal on its way to the process is passed on and is no stop of the walk.
bool tracer::wait_for_stop(const std::function<bool()>& done) {
    for (;;) {
        int status = 0;
        const pid_t got = ::waitpid(pid_, &status, __WALL | WNOHANG);
        if (got == 0) {
            if (done()) return false;
            std::this_thread::sleep_for(look_again);
            continue;
        }
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 || !WIFSTOPPED(status)) {
            ended_ = true;
            return false;
        }
        const int signal = WSTOPSIG(status);
        if (signal == system_call_stop || status >> 16 != 0 || signal == SIGTRAP) return true;
        pending_ = signal;
        go_on();
    }
}

} // namespace pinfold::test
