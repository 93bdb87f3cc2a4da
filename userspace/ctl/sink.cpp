#include "ctl/sink.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>

namespace pinfold::ctl {

sink::sink(int fd) : fd_(fd) {
    struct stat found{};
    if (::fstat(fd, &found) != 0) {
        broken_ = true; // closed by whoever started us
        return;
    }
    socket_ = S_ISSOCK(found.st_mode);
    file_ = S_ISREG(found.st_mode);
    if (!socket_ && !file_) {
        const std::string path = "/proc/self/fd/" + std::to_string(fd);
        own_ = unique_fd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    }
}

void sink::put(std::string_view bytes) {
    if (broken_) return;
    if (held_.empty()) bytes.remove_prefix(write_some(bytes));
    held_ += bytes;
}

void sink::flush() {
    held_.erase(0, write_some(held_));
    if (broken_) held_.clear();
}

std::size_t sink::write_some(std::string_view bytes) {
    std::size_t done = 0;
    while (done < bytes.size() && !broken_) {
        const std::string_view rest = bytes.substr(done);
        ssize_t wrote = 0;
        if (socket_) {
            wrote = ::send(fd_, rest.data(), rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        } else if (own_ || file_) {
            wrote = ::write(fd(), rest.data(), rest.size());
        } else {
            // It could not be opened again. A pipe that is said to be writable takes PIPE_BUF bytes without blocking.
            pollfd ready{.fd = fd_, .events = POLLOUT, .revents = 0};
            if (::poll(&ready, 1, 0) <= 0) break;
            wrote = ::write(fd_, rest.data(), std::min<std::size_t>(rest.size(), PIPE_BUF));
        }
        if (wrote >= 0)
            done += static_cast<std::size_t>(wrote);
        else if (errno == EAGAIN)
            break;
        else if (errno != EINTR)
            broken_ = true;
    }
    return done;
}

} // namespace pinfold::ctl
