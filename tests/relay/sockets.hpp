// Plain blocking sockets for tests, each made in the namespace it belongs to; a call that should not hang ends in 5 s.
#pragma once

#include "agent/relay/endpoint.hpp"
#include "relay/relay_world.hpp"
#include "support/time_scale.hpp"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/socket.h>

namespace pinfold::test {

inline endpoint at(const std::string& address, std::uint16_t port) {
    const auto parsed = endpoint::parse(address, port);
    if (!parsed) fail("{} is no address", address);
    return *parsed;
}

inline void limit_time(int fd, std::chrono::milliseconds limit = std::chrono::seconds(5) * time_scale()) {
    const timeval value{.tv_sec = limit.count() / 1000, .tv_usec = (limit.count() % 1000) * 1000};
    for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO})
        ::setsockopt(fd, SOL_SOCKET, option, &value, sizeof value);
}

inline unique_fd make_socket(const unique_fd& space, int family, int type, int protocol = 0) {
    unique_fd made = inside(space, [&] {
        return unique_fd(check(::socket(family, type | SOCK_CLOEXEC, protocol), "make a socket"));
    });
    limit_time(made.get());
    return made;
}

// 0 or errno.
inline int connect_to(int fd, const endpoint& to) {
    sockaddr_storage name{};
    const socklen_t size = to.write(name);
    return ::connect(fd, reinterpret_cast<const sockaddr*>(&name), size) == 0 ? 0 : errno;
}

// ::ffff:a.b.c.d, as an AF_INET6 socket names an IPv4 address.
inline int connect_mapped(int fd, const endpoint& to) {
    sockaddr_in6 name{};
    name.sin6_family = AF_INET6;
    name.sin6_port = htons(to.port);
    name.sin6_addr.s6_addr[10] = name.sin6_addr.s6_addr[11] = 0xff;
    std::memcpy(&name.sin6_addr.s6_addr[12], to.address.data(), 4);
    return ::connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0 ? 0 : errno;
}

inline unique_fd bind_to(const unique_fd& space, int type, const endpoint& to) {
    unique_fd made = make_socket(space, to.family, type);
    const int on = 1;
    ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_storage name{};
    const socklen_t size = to.write(name);
    check(::bind(made.get(), reinterpret_cast<const sockaddr*>(&name), size), "bind {}", to.text());
    if (type == SOCK_STREAM) check(::listen(made.get(), 1024), "listen on {}", to.text());
    return made;
}

inline unique_fd accept_from(const unique_fd& listener) {
    unique_fd made(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (made) limit_time(made.get());
    return made;
}

inline endpoint name_of(int fd, decltype(::getpeername)* name) {
    sockaddr_storage storage{};
    socklen_t size = sizeof storage;
    return name(fd, reinterpret_cast<sockaddr*>(&storage), &size) == 0 ? endpoint::from(storage, size)
                                                                       : endpoint{};
}

inline bool say(const unique_fd& to, std::string_view text) {
    while (!text.empty()) {
        const ssize_t sent = ::send(to.get(), text.data(), text.size(), MSG_NOSIGNAL);
        if (sent < 0) return false;
        text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
}

// What one recv() gives; on an error "errno N", at the end of the stream "".
inline std::string hear(const unique_fd& from, std::size_t most = 65536) {
    std::string text(most, '\0');
    const ssize_t size = ::recv(from.get(), text.data(), text.size(), 0);
    if (size < 0) return fmt::format("errno {}", errno);
    text.resize(static_cast<std::size_t>(size));
    return text;
}

// Exactly so much, or what came until the end or an error.
inline std::string hear_all(const unique_fd& from, std::size_t most) {
    std::string text;
    while (text.size() < most) {
        const std::string part = hear(from, most - text.size());
        if (part.empty() || part.starts_with("errno ")) break;
        text += part;
    }
    return text;
}

// Whether something is there to be read or accepted, within this time.
inline bool is_there(const unique_fd& fd, int milliseconds = 2000) {
    pollfd waiting{.fd = fd.get(), .events = POLLIN, .revents = 0};
    return ::poll(&waiting, 1, milliseconds) > 0;
}

inline bool eventually(auto holds, std::chrono::milliseconds limit = std::chrono::seconds(5)) {
    limit *= time_scale();
    const auto end = std::chrono::steady_clock::now() + limit;
    while (!holds()) {
        if (std::chrono::steady_clock::now() > end) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
}

// A connection from a cage to a listener of `far`: both ends.
struct both_ends {
    unique_fd inside;
    unique_fd outside;
};

inline both_ends join(const unique_fd& cage, const unique_fd& listener, const endpoint& to) {
    both_ends made{.inside = make_socket(cage, to.family, SOCK_STREAM), .outside = {}};
    if (const int error = connect_to(made.inside.get(), to)) fail_errno(error, "connect to {}", to.text());
    made.outside = accept_from(listener);
    return made;
}

inline void reset_on_close(const unique_fd& fd) {
    const linger value{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &value, sizeof value);
}

} // namespace pinfold::test
