#include "wire/channel.hpp"

#include "wire/codec.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>

namespace pinfold::wire {

namespace {

constexpr std::size_t control_bytes = CMSG_SPACE(sizeof(int) * most_fds);

// The kernel copies the fds into the datagram; the message keeps its own.
struct outgoing {
    explicit outgoing(const message& what) : bytes(encode(what)) {
        part = {.iov_base = bytes.data(), .iov_len = bytes.size()};
        header.msg_iov = &part;
        header.msg_iovlen = 1;
        if (what.fds.empty()) return;
        if (what.fds.size() > most_fds)
            fail("a message carries {} file descriptors, at most {} are sent", what.fds.size(), most_fds);
        header.msg_control = control.data();
        header.msg_controllen = CMSG_SPACE(sizeof(int) * what.fds.size());
        cmsghdr* first = CMSG_FIRSTHDR(&header);
        first->cmsg_level = SOL_SOCKET;
        first->cmsg_type = SCM_RIGHTS;
        first->cmsg_len = CMSG_LEN(sizeof(int) * what.fds.size());
        std::array<int, most_fds> numbers{};
        std::ranges::transform(what.fds, numbers.begin(), &unique_fd::get);
        std::memcpy(CMSG_DATA(first), numbers.data(), sizeof(int) * what.fds.size());
    }

    std::vector<std::byte> bytes;
    alignas(cmsghdr) std::array<std::byte, control_bytes> control{};
    iovec part{};
    msghdr header{};
};

std::vector<unique_fd> received_fds(msghdr& header) {
    std::vector<unique_fd> fds;
    for (cmsghdr* each = CMSG_FIRSTHDR(&header); each != nullptr; each = CMSG_NXTHDR(&header, each)) {
        if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS) continue;
        const std::size_t count = (each->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(each) + i * sizeof(int), sizeof(int));
            fds.emplace_back(fd);
        }
    }
    return fds;
}

} // namespace

channel channel::connect(const std::filesystem::path& socket) {
    sockaddr_un address{.sun_family = AF_UNIX};
    const std::string& path = socket.native();
    if (path.size() >= sizeof address.sun_path)
        fail("connect to the keeper at {}: the path has {} bytes, and that of a socket at most {}", path,
             path.size(), sizeof address.sun_path - 1);
    std::memcpy(address.sun_path, path.data(), path.size());
    unique_fd connection(
        check(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), "make a socket for the keeper"));
    check(::connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
          "connect to the keeper at {} (is pinfold-keeper running?)", path);
    return channel(std::move(connection));
}

void channel::send(const message& what) {
    outgoing packet(what);
    while (::sendmsg(socket_.get(), &packet.header, MSG_NOSIGNAL) < 0) {
        if (errno != EINTR) fail_errno(errno, "send to the other process");
    }
}

bool channel::try_send(const message& what) {
    outgoing packet(what);
    for (;;) {
        if (::sendmsg(socket_.get(), &packet.header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return true;
        if (errno == EAGAIN) return false;
        if (errno != EINTR) fail_errno(errno, "send to the other process");
    }
}

std::expected<channel::received, problem> channel::receive(bool wait) {
    static thread_local std::vector<std::byte> buffer(largest_message +
                                                      1); // one byte more shows an overlong one
    alignas(cmsghdr) std::array<std::byte, control_bytes> control{};
    iovec part{.iov_base = buffer.data(), .iov_len = buffer.size()};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    const ssize_t size = ::recvmsg(socket_.get(), &header, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
    if (size < 0) {
        if (errno == EAGAIN || errno == EINTR) return received(nothing_yet{});
        if (errno == ECONNRESET) return received(closed{});
        fail_errno(errno, "receive from the other process");
    }
    std::vector<unique_fd> fds = received_fds(header);
    if (size == 0) return received(closed{});
    if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
        return std::unexpected(
            problem{"message", "is longer, or carries more file descriptors, than is ever sent"});
    auto decoded = decode(std::span(buffer).first(static_cast<std::size_t>(size)));
    if (!decoded) return std::unexpected(std::move(decoded).error());
    decoded->fds = std::move(fds);
    return received(std::move(*decoded));
}

peer channel::who() const {
    ucred credentials{};
    socklen_t size = sizeof credentials;
    check(::getsockopt(socket_.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size), "ask who is connected");
    return {credentials.pid, credentials.uid, credentials.gid};
}

} // namespace pinfold::wire
