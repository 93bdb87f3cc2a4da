// pinfold-init: process 1 of a cage. It reaps, and it ends the cage when the first program ends.
//
// pinfold-init [PID]   PID is the first program, a child already forked; without it the cage idles until it is killed.
//
// It is the one program of ours that stays inside, 200 times on a busy machine, so it allocates nothing and holds
// nothing: no environment, no descriptor but /dev/null, no memory that another process of the cage may read.
#include "incage/kernel.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

namespace {

using namespace pinfold;

constexpr long grace_ms = 2000;
constexpr long look_again_ms = 10;
constexpr int exit_no_such_child = 125;
constexpr int exit_terminated = 128 + SIGTERM;
constexpr kernel::signal_set awaited = kernel::set_of(SIGCHLD) | kernel::set_of(SIGTERM);

// Process 2 may be running already. What it could find here before this line is an empty environment and our name.
void hide() {
    kernel::call(SYS_prctl, PR_SET_DUMPABLE, 0);
    // execveat of a descriptor leaves its number as the name.
    kernel::call(SYS_prctl, PR_SET_NAME, kernel::address("pinfold-init"));
}

// Nothing that the keeper's child held may stay reachable through /proc/1/fd.
void drop_descriptors() {
    kernel::call(SYS_close_range, 0, static_cast<unsigned>(-1), 0);
    // Where this fails, closed will do as well: nothing here reads or writes.
    kernel::call(SYS_openat, AT_FDCWD, kernel::address("/dev/null"), O_RDWR);
    kernel::call(SYS_dup, 0);
    kernel::call(SYS_dup, 0);
}

// The process number in `text`, 0 where it is none.
long parse_pid(const char* text) {
    long value = 0;
    for (; *text != '\0'; ++text) {
        if (*text < '0' || *text > '9' || value > 1'000'000'000) return 0;
        value = value * 10 + (*text - '0');
    }
    return value;
}

bool is_child(long pid) {
    return kernel::call(SYS_waitid, P_PID, pid, 0, WEXITED | WNOHANG | WNOWAIT) == 0;
}

int exit_code(int status) {
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Reaps all that has ended; a SIGCHLD may stand for thousands. The exit code of `first`, or -1 while it runs.
int reap(long first) {
    int code = -1;
    int status = 0;
    for (long pid = 0; (pid = kernel::wait_any(status, WNOHANG)) > 0;)
        if (pid == first) code = exit_code(status);
    return code;
}

bool anybody_left() {
    return kernel::kill(-1, 0) != -ESRCH;
}

long now_ms() {
    timespec now{};
    kernel::call(SYS_clock_gettime, CLOCK_MONOTONIC, kernel::address(&now));
    return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

// SIGTERM, then at most `grace_ms` for everybody to end. Who is left is killed by the kernel when process 1 exits.
// What entered the cage later is the keeper's child, not ours: it gives no SIGCHLD, hence the looking again.
void end_everybody() {
    reap(0);
    if (!anybody_left()) return;
    kernel::kill(-1, SIGTERM);
    kernel::kill(-1, SIGCONT); // a stopped program cannot hear the first
    constexpr timespec pause{.tv_sec = 0, .tv_nsec = look_again_ms * 1'000'000};
    for (const long until = now_ms() + grace_ms; anybody_left() && now_ms() < until; reap(0))
        kernel::wait_for_signal(awaited, nullptr, &pause);
}

// Only the keeper ends a cage by SIGTERM. Its kill() carries process number 0 here, since it is outside of our
// namespace; a program of the cage cannot forge that, for the kernel lets nobody queue a signal to others as SI_USER.
bool is_from_outside(const siginfo_t& signal) {
    return signal.si_code == SI_USER && signal.si_pid == 0;
}

// Until the first program ends, or the keeper says so; the cage's exit code.
int wait_for_the_end(long first) {
    for (;;) {
        const int code = reap(first);
        if (code >= 0) return code;
        siginfo_t signal{};
        if (kernel::wait_for_signal(awaited, &signal, nullptr) == SIGTERM && is_from_outside(signal))
            return exit_terminated;
    }
}

} // namespace

extern "C" [[noreturn]] void run(long argc, const char* const* argv) {
    hide();
    drop_descriptors();
    // Blocked signals are kept even for a process 1 without handlers, so none is lost between a look at the children
    // and the next wait. All others are ignored by the kernel, whoever of the cage sends them.
    kernel::block(awaited);
    kernel::restore_default(SIGCHLD); // ignored, it would reap the first program before its status is read

    const long first = argc > 1 ? parse_pid(argv[1]) : 0;
    if (argc > 1 && (first == 0 || !is_child(first))) kernel::exit(exit_no_such_child);
    const int code = wait_for_the_end(first);
    end_everybody();
    kernel::exit(code);
}

// The compiler clears larger variables by this name, with or without a C library.
extern "C" void* memset(void* at, int byte, std::size_t count) {
    for (volatile char* to = static_cast<char*>(at); count > 0; --count) *to++ = static_cast<char>(byte);
    return at;
}
