// Runs the real `pinfold` with an environment of its own, on pipes or on a terminal.
#pragma once

#include "support/agent_fixture.hpp"

#include <functional>
#include <grp.h>
#include <iterator>
#include <optional>
#include <string_view>
#include <sys/ioctl.h>
#include <termios.h>
#include <tuple>

namespace pinfold::test {

struct cli_result {
    int status = -1;
    std::string out, err;
};

class cli {
public:
    explicit cli(std::filesystem::path api) : api_(std::move(api)) {}
    std::vector<std::string> environment{"PATH=/usr/bin:/bin", "HOME=/nonexistent", "TERM=xterm"};
    std::optional<uid_t>
        user; // who runs it, with a group of the same number; the test's own user where none is named
    std::filesystem::path directory; // where it runs; the test's own where empty
    std::function<void()> before;    // in the child, last

    // Starts it with these as its standard streams.
    [[nodiscard]] pid_t start(const std::vector<std::string>& arguments, int in, int out, int err,
                              bool session = false) const {
        std::vector<std::string> all{PINFOLD_BIN_DIR "/pinfold"};
        if (!api_.empty()) all.insert(all.end(), {"--api", api_.native()});
        all.insert(all.end(), arguments.begin(), arguments.end());
        std::vector<char*> argv, env;
        for (const std::string& each : all) argv.push_back(const_cast<char*>(each.c_str()));
        for (const std::string& each : environment) env.push_back(const_cast<char*>(each.c_str()));
        argv.push_back(nullptr);
        env.push_back(nullptr);
        const pid_t pid = ::fork();
        if (pid != 0) return pid;
        if (session) {
            ::setsid();
            ::ioctl(in, TIOCSCTTY, 0);
        }
        ::dup2(in, 0);
        ::dup2(out, 1);
        ::dup2(err, 2);
        if (before) before();
        for (int fd = 3; fd < 256; ++fd) ::close(fd);
        if (!directory.empty() && ::chdir(directory.c_str()) != 0) ::_exit(98);
        if (user && (::setgroups(0, nullptr) != 0 || ::setresgid(*user, *user, *user) != 0 ||
                     ::setresuid(*user, *user, *user) != 0))
            ::_exit(97);
        ::execve(argv[0], argv.data(), env.data());
        ::_exit(99);
    }

    [[nodiscard]] cli_result run(const std::vector<std::string>& arguments,
                                 const std::string& input = "") const {
        const scratch_directory scratch;
        const auto open = [&](const char* name, int flags) {
            return unique_fd(::open((scratch.path() / name).c_str(), flags | O_CLOEXEC, 0600));
        };
        const auto read = [&](const char* name) {
            std::ifstream from(scratch.path() / name, std::ios::binary);
            return std::string{std::istreambuf_iterator<char>(from), {}};
        };
        std::ofstream(scratch.path() / "in", std::ios::binary) << input;
        const unique_fd in = open("in", O_RDONLY), out = open("out", O_WRONLY | O_CREAT),
                        err = open("err", O_WRONLY | O_CREAT);
        if (user)
            for (const unique_fd* each : {&in, &out, &err}) std::ignore = ::fchown(each->get(), *user, *user);
        const pid_t pid = start(arguments, in.get(), out.get(), err.get());
        return {.status = wait(pid), .out = read("out"), .err = read("err")};
    }

    // As a shell says it: the exit code, or 128 + signal. 999 where it did not end.
    static int wait(pid_t pid, std::chrono::milliseconds limit = std::chrono::seconds(30)) {
        int status = 0;
        if (!eventually([&] { return ::waitpid(pid, &status, WNOHANG) == pid; }, limit)) {
            ::kill(pid, SIGKILL);
            ::waitpid(pid, &status, 0);
            return 999;
        }
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }

private:
    std::filesystem::path api_;
};

// A terminal with `pinfold` in it, and us in place of the person.
class cli_terminal {
public:
    cli_terminal(const cli& from, const std::vector<std::string>& arguments, unsigned short rows,
                 unsigned short columns)
        : master_(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
        ::unlockpt(master_.get());
        slave_ = unique_fd(::open(::ptsname(master_.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
        if (from.user) std::ignore = ::fchown(slave_.get(), *from.user, *from.user);
        resize(rows, columns, false);
        ::tcgetattr(slave_.get(), &before_);
        pid_ = from.start(arguments, slave_.get(), slave_.get(), slave_.get(), true);
    }
    void type(std::string_view text) const { std::ignore = ::write(master_.get(), text.data(), text.size()); }
    void resize(unsigned short rows, unsigned short columns, bool tell = true) const {
        const winsize size{.ws_row = rows, .ws_col = columns};
        ::ioctl(master_.get(), TIOCSWINSZ, &size);
        if (tell) ::kill(pid_, SIGWINCH); // it leads the session, but another group may be in front
    }
    // Reads until this was seen.
    bool see(std::string_view what, std::chrono::milliseconds limit = std::chrono::seconds(10)) {
        std::array<char, 4096> buffer{};
        while (seen_.find(what) == std::string::npos) {
            pollfd ready{master_.get(), POLLIN, 0};
            if (::poll(&ready, 1, static_cast<int>(limit.count()) * time_scale()) <= 0) return false;
            const ssize_t got = ::read(master_.get(), buffer.data(), buffer.size());
            if (got <= 0) return false;
            seen_.append(buffer.data(), static_cast<std::size_t>(got));
        }
        seen_.erase(0, seen_.find(what) + what.size());
        return true;
    }
    [[nodiscard]] bool is_raw() const {
        termios now{};
        ::tcgetattr(slave_.get(), &now);
        return (now.c_lflag & (ICANON | ECHO | ISIG)) == 0;
    }
    [[nodiscard]] bool is_restored() const {
        termios now{};
        ::tcgetattr(slave_.get(), &now);
        return now.c_lflag == before_.c_lflag && now.c_iflag == before_.c_iflag &&
               now.c_oflag == before_.c_oflag;
    }
    [[nodiscard]] pid_t pid() const { return pid_; }

private:
    unique_fd master_, slave_;
    termios before_{};
    std::string seen_;
    pid_t pid_ = -1;
};

} // namespace pinfold::test
