#include "agent/host_program.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <tuple>
#include <unistd.h>

namespace pinfold {

namespace {

struct pipe_ends {
    unique_fd read, write;
};

pipe_ends make_pipe() {
    std::array<int, 2> ends{};
    check(::pipe2(ends.data(), O_CLOEXEC), "make a pipe for the program");
    return {unique_fd(ends[0]), unique_fd(ends[1])};
}

struct pty {
    unique_fd master, slave;
};

pty make_pty(const terminal_size& size) {
    pty made;
    made.master = unique_fd(
        check(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), "open a terminal for the program"));
    check(::unlockpt(made.master.get()), "unlock the terminal of the program");
    made.slave = unique_fd(check(::ioctl(made.master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC),
                                 "open the program's side of its terminal"));
    const winsize window{.ws_row = size.rows, .ws_col = size.columns};
    check(::ioctl(made.master.get(), TIOCSWINSZ, &window), "set the size of the terminal");
    return made;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
    std::vector<char*> list;
    list.reserve(texts.size() + 1);
    for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
    list.push_back(nullptr);
    return list;
}

// What the child needs, all of it allocated before the fork.
struct launch {
    std::vector<char*> argv, environment;
    const char* directory;
    std::array<int, 3> streams;
    int report; // close-on-exec: errno goes here, end of file means that exec happened
    bool terminal;
    rlim_t file_limit;
    pid_t agent;
};

// Between fork and exec: system calls only.
[[noreturn]] void become(const launch& what) {
    const auto give_up = [&] {
        const int error = errno;
        [[maybe_unused]] const ssize_t told = ::write(what.report, &error, sizeof error);
        ::_exit(127);
    };
    ::setsid();
    if (what.terminal && ::ioctl(what.streams[0], TIOCSCTTY, 0) != 0) give_up();
    for (int i = 0; i < 3; ++i) {
        if (::dup2(what.streams[static_cast<std::size_t>(i)], i) < 0) give_up();
    }
    ::prctl(PR_SET_PDEATHSIG, SIGHUP); // without the agent nobody could reach it any more
    if (::getppid() != what.agent) ::_exit(129);
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = std::min(what.file_limit, files.rlim_max);
        ::setrlimit(RLIMIT_NOFILE, &files);
    }
    for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::umask(022); // the agent's own is stricter than what a program of the owner expects
    if (::chdir(what.directory) != 0) give_up();
    ::environ = const_cast<char**>(what.environment.data());
    ::execvp(what.argv[0], what.argv.data());
    give_up();
    ::_exit(127);
}

void wait_for_exec(const unique_fd& report, pid_t pid, const command_spec& command) {
    int error = 0;
    ssize_t got = 0;
    while ((got = ::read(report.get(), &error, sizeof error)) < 0 && errno == EINTR) {
    }
    if (got == 0) return;
    ::waitpid(pid, nullptr, 0);
    throw exec_failure(error == ENOENT ? 127 : 126,
                       fmt::format("exec {}: {}", command.argv.front(), std::strerror(error)));
}

} // namespace

host_program::host_program(uring& ring, pid_t pid, unique_fd pidfd, program_streams from)
    : ring_(ring), pid_(pid), pidfd_(std::move(pidfd)) {
    streams = std::move(from);
}

std::shared_ptr<host_program> host_program::start(uring& ring, const command_spec& command,
                                                  std::uint64_t file_limit) {
    std::vector<unique_fd> ours, theirs;
    if (command.terminal) {
        pty terminal = make_pty(*command.terminal);
        ours.push_back(std::move(terminal.master));
        theirs.push_back(std::move(terminal.slave));
    } else {
        for (int i = 0; i < 3; ++i) {
            pipe_ends pipe = make_pipe();
            ours.push_back(std::move(i == 0 ? pipe.write : pipe.read));
            theirs.push_back(std::move(i == 0 ? pipe.read : pipe.write));
        }
    }
    pipe_ends report = make_pipe();
    const launch what{.argv = pointers(command.argv),
                      .environment = pointers(command.environment),
                      .directory = command.directory.c_str(),
                      .streams = {theirs.front().get(), theirs[theirs.size() / 2].get(), theirs.back().get()},
                      .report = report.write.get(),
                      .terminal = command.terminal.has_value(),
                      .file_limit = file_limit,
                      .agent = ::getpid()};
    const pid_t pid = check(::fork(), "start {}", command.argv.front());
    if (pid == 0) become(what);
    unique_fd pidfd(static_cast<int>(check(::syscall(SYS_pidfd_open, pid, 0), "watch the program")));
    report.write.reset();
    theirs.clear();
    wait_for_exec(report.read, pid, command);
    return std::make_shared<host_program>(
        ring, pid, std::move(pidfd), program_streams::from(std::move(ours), command.terminal.has_value()));
}

task<> host_program::watch(std::shared_ptr<host_program> self) {
    std::ignore = co_await poll_once(ring_, pidfd_.get(), POLLIN);
    siginfo_t how{};
    rusage used{};
    // The system call, not glibc's waitid: that one hides the rusage with the peak of memory.
    if (::syscall(SYS_waitid, P_PID, pid_, &how, WEXITED | WNOHANG, &used) != 0 || how.si_pid != pid_)
        ::waitpid(pid_, nullptr, WNOHANG);
    const bool exited = how.si_code == CLD_EXITED;
    self->finish({.status = exited ? how.si_status : 128 + how.si_status,
                  .memory_peak = static_cast<std::uint64_t>(used.ru_maxrss) * 1024});
}

// To its process group: setsid made it the leader, and a terminal's signals go to all of it, too.
task<> host_program::send_signal(int number) {
    if (!ended.is_set()) ::kill(-pid_, number);
    co_return;
}

task<> host_program::kill() {
    if (!ended.is_set()) ::kill(-pid_, SIGKILL);
    co_return;
}

} // namespace pinfold
