#include "ctl/stdio_client.hpp"

#include "base/error.hpp"
#include "ctl/terminal.hpp"

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace pinfold::ctl {

namespace {

constexpr std::array taken_over{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT};
constexpr std::size_t read_bytes = 256 * 1024;
constexpr int slow_milliseconds = 700;

sigset_t signal_set() {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int number : taken_over) ::sigaddset(&set, number);
    return set;
}

} // namespace

stdio_client::stdio_client(unique_fd connection, const std::string& early, bool terminal, stdio_events events)
    : connection_(std::move(connection)),
      events_(std::move(events)),
      output_(STDOUT_FILENO),
      errors_(STDERR_FILENO),
      inbox_(early.begin(), early.end()),
      inbox_size_(early.size()),
      terminal_(terminal) {
    inbox_.resize(std::max(inbox_.size(), PINFOLD_FRAME_HEADER + PINFOLD_FRAME_PAYLOAD + read_bytes));
    const sigset_t set = signal_set();
    check(::sigprocmask(SIG_BLOCK, &set, nullptr), "take signals over");
    std::signal(SIGPIPE, SIG_IGN); // a reader that leaves is told to the program, which may care
    signals_ = unique_fd(check(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), "take signals over"));
}

stdio_client::~stdio_client() {
    const sigset_t set = signal_set();
    ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

stdio_result stdio_client::run() {
    take_frames();
    while (!done_ || !output_.empty() || !errors_.empty()) {
        const bool may_receive = !done_ && output_.empty() && errors_.empty();
        const bool may_read = input_open_ && !done_ && started_ && credit_ > 0 &&
                              outbox_.size() < PINFOLD_FRAME_PAYLOAD;
        std::array<pollfd, 5> ready{};
        const auto want = [](int fd, bool when, short events) { return pollfd{when ? fd : -1, events, 0}; };
        const short receiving = may_receive ? POLLIN : 0;
        const short sending = outbox_.empty() ? 0 : POLLOUT;
        ready[0] = want(connection_.get(), !done_, static_cast<short>(receiving | sending));
        ready[1] = want(signals_.get(), true, POLLIN);
        ready[2] = want(STDIN_FILENO, may_read, POLLIN);
        ready[3] = want(output_.fd(), !output_.empty(), POLLOUT);
        ready[4] = want(errors_.fd(), !errors_.empty(), POLLOUT);
        const int count = ::poll(ready.data(), ready.size(),
                                 started_ || !events_.slow ? -1 : slow_milliseconds);
        if (count < 0 && errno != EINTR) fail_errno(errno, "wait for the program");
        if (count == 0 && !started_) std::exchange(events_.slow, nullptr)();
        if (count <= 0) continue;
        if (ready[1].revents != 0) read_signals();
        if (ready[3].revents != 0) output_.flush();
        if (ready[4].revents != 0) errors_.flush();
        if (ready[2].revents != 0) read_input();
        if (may_receive && (ready[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0) receive();
        send_queued();
    }
    return result_;
}

// ---- to the agent ----

void stdio_client::queue(std::uint32_t type, std::string_view payload) {
    std::array<unsigned char, PINFOLD_FRAME_HEADER> header{};
    pinfold_put_header(header.data(), type, static_cast<std::uint32_t>(payload.size()));
    outbox_.append(reinterpret_cast<const char*>(header.data()), header.size());
    outbox_ += payload;
}

void stdio_client::queue_number(std::uint32_t type, std::uint32_t number) {
    std::array<unsigned char, 4> bytes{};
    pinfold_put32(bytes.data(), number);
    queue(type, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void stdio_client::send_queued() {
    if (outbox_.empty()) return;
    const ssize_t sent = ::send(connection_.get(), outbox_.data(), outbox_.size(),
                                MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0)
        outbox_.erase(0, static_cast<std::size_t>(sent));
    else if (errno != EAGAIN && errno != EINTR)
        outbox_.clear(); // it hung up; what it said before is still to be read
}

void stdio_client::send_window() {
    const auto size = window_size();
    if (terminal_ && size)
        queue_number(PINFOLD_FRAME_RESIZE, std::uint32_t{size->rows} << 16 | size->columns);
}

void stdio_client::forward(std::uint32_t number) {
    queue_number(PINFOLD_FRAME_SIGNAL, number);
}

// Before it runs there is nothing to signal: hanging up takes away what was being made.
void stdio_client::interrupt(std::uint32_t number) {
    const nlohmann::json why{{"error", "interrupted before the program was started"},
                             {"status", 128 + number}};
    result_ = {.error = true, .text = why.dump()};
    done_ = true;
}

void stdio_client::read_input() {
    static std::array<char, PINFOLD_FRAME_PAYLOAD> buffer;
    const ssize_t got = ::read(STDIN_FILENO, buffer.data(), std::min<std::uint64_t>(buffer.size(), credit_));
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) {
        input_open_ = false;
        queue(PINFOLD_FRAME_STDIN_END, {});
        return;
    }
    credit_ -= static_cast<std::uint64_t>(got);
    queue(PINFOLD_FRAME_STDIN, {buffer.data(), static_cast<std::size_t>(got)});
}

void stdio_client::read_signals() {
    signalfd_siginfo what{};
    while (::read(signals_.get(), &what, sizeof what) == static_cast<ssize_t>(sizeof what)) {
        if (what.ssi_signo == SIGWINCH) {
            send_window();
        } else if (what.ssi_signo == SIGCONT) {
            if (events_.resumed) events_.resumed();
            send_window();
        } else {
            if (started_)
                forward(what.ssi_signo);
            else
                interrupt(what.ssi_signo);
        }
    }
}

// ---- from the agent ----

void stdio_client::receive() {
    const ssize_t got = ::recv(connection_.get(), inbox_.data() + inbox_size_, inbox_.size() - inbox_size_,
                               MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) fail("the agent went away while the program ran; how it ended is not known");
    inbox_size_ += static_cast<std::size_t>(got);
    take_frames();
}

void stdio_client::take_frames() {
    std::size_t at = 0;
    const std::string_view all(inbox_.data(), inbox_size_);
    while (!done_ && all.size() - at >= PINFOLD_FRAME_HEADER) {
        std::uint32_t length = 0;
        const std::uint32_t type = pinfold_get_header(reinterpret_cast<const unsigned char*>(all.data() + at),
                                                      &length);
        if (type == PINFOLD_FRAME_NONE)
            fail("the agent speaks another protocol: agent and pinfold are of different versions");
        if (all.size() - at < PINFOLD_FRAME_HEADER + length) break;
        take(type, all.substr(at + PINFOLD_FRAME_HEADER, length));
        at += PINFOLD_FRAME_HEADER + length;
    }
    std::copy(inbox_.begin() + static_cast<std::ptrdiff_t>(at),
              inbox_.begin() + static_cast<std::ptrdiff_t>(inbox_size_), inbox_.begin());
    inbox_size_ -= at;
}

void stdio_client::take(std::uint32_t type, std::string_view payload) {
    switch (type) {
    case PINFOLD_FRAME_STDOUT: return put(output_, payload);
    case PINFOLD_FRAME_STDERR: return put(errors_, payload);
    case PINFOLD_FRAME_CREDIT:
        if (payload.size() == 4)
            credit_ += pinfold_get32(reinterpret_cast<const unsigned char*>(payload.data()));
        return;
    case PINFOLD_FRAME_STARTED: {
        started_ = true;
        const auto what = nlohmann::json::parse(payload, nullptr, false);
        if (events_.started && what.is_object()) events_.started(what);
        send_window(); // it may have changed since it was asked for
        return;
    }
    case PINFOLD_FRAME_EXIT:
    case PINFOLD_FRAME_ERROR:
        result_ = {.error = type == PINFOLD_FRAME_ERROR, .text = std::string(payload)};
        done_ = true;
        return;
    default: return; // of a newer agent
    }
}

void stdio_client::put(sink& into, std::string_view payload) {
    into.put(payload);
    if (!into.broken() || &into != &output_ || std::exchange(pipe_told_, true)) return;
    forward(SIGPIPE); // as it would have got it without us between
}

} // namespace pinfold::ctl
