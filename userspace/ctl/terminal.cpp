#include "ctl/terminal.hpp"

#include "base/error.hpp"

#include <csignal>
#include <cstdlib>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

namespace pinfold::ctl {

namespace {

// For the signal handlers, which can reach no object.
termios before;
volatile std::sig_atomic_t is_raw = 0;

void restore() {
    if (is_raw == 0) return;
    is_raw = 0;
    ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
}

void restore_and_die(int number) {
    restore();
    ::signal(number, SIG_DFL);
    ::raise(number);
}

void make_raw() {
    termios raw = before;
    ::cfmakeraw(&raw);
    check(::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw), "make the terminal raw");
    is_raw = 1;
}

} // namespace

std::optional<window> window_size() {
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        winsize size{};
        if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
            return window{size.ws_row, size.ws_col};
    }
    return std::nullopt;
}

raw_terminal::raw_terminal() {
    check(::tcgetattr(STDIN_FILENO, &before), "use standard input as a terminal");
    std::atexit(restore);
    // Orderly ends go through the destructor; these are the others.
    for (const int number : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL}) ::signal(number, restore_and_die);
    make_raw();
}

raw_terminal::~raw_terminal() {
    restore();
}

void raw_terminal::again() {
    make_raw();
}

} // namespace pinfold::ctl
