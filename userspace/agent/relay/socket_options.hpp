// Options of the relay's sockets. A failure is a bug or an exhausted kernel, and then the socket is of no use.
#pragma once

#include <cerrno>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace pinfold {

inline bool set_option(int socket, int level, int name, int value) noexcept {
    return ::setsockopt(socket, level, name, &value, sizeof value) == 0;
}

inline int pending_error(int socket) noexcept {
    int error = 0;
    socklen_t size = sizeof error;
    return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : EBADF;
}

// On: close() resets the peer, also the close() that the kernel does for a process that was killed. Without it the peer
// would read a clean end, and take what it has of an answer for the whole of it.
inline bool set_reset_on_close(int socket, bool on) noexcept {
    const linger value{.l_onoff = on ? 1 : 0, .l_linger = 0};
    return ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &value, sizeof value) == 0;
}

// Of the upstream side of a flow; the side inside inherits its own from the listener.
inline bool set_flow_options(int socket) noexcept {
    return set_reset_on_close(socket, true) && set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1) &&
           set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
}

} // namespace pinfold
