// A SOCK_SEQPACKET connection between agent and keeper: one message a datagram, fds beside it.
#pragma once

#include "base/error.hpp"
#include "wire/messages.hpp"

#include <expected>
#include <filesystem>
#include <optional>
#include <sys/types.h>

namespace pinfold::wire {

struct peer {
    pid_t pid = 0;
    uid_t uid = 0;
    gid_t gid = 0;
};

class channel {
public:
    explicit channel(unique_fd socket) : socket_(std::move(socket)) {}

    // Connects to the keeper. Throws with what to do where nobody listens.
    [[nodiscard]] static channel connect(const std::filesystem::path& socket);

    // Blocks until it is sent (the peer is local and reads at once). Throws std::system_error, EPIPE when it is gone.
    void send(const message& what);
    // False instead of blocking, for a peer that does not read.
    [[nodiscard]] bool try_send(const message& what);

    // One message; nothing when the peer is gone. With `wait` false also nothing_yet(). Received fds are
    // close-on-exec. A malformed message is a problem and its fds are closed.
    struct nothing_yet {};
    struct closed {};
    using received = std::variant<message, nothing_yet, closed>;
    [[nodiscard]] std::expected<received, problem> receive(bool wait);

    // Who connected, as the kernel says (SO_PEERCRED).
    [[nodiscard]] peer who() const;
    [[nodiscard]] int fd() const noexcept { return socket_.get(); }

private:
    unique_fd socket_;
};

} // namespace pinfold::wire
