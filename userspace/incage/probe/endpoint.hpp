// Addresses and sockets of the acts.
#pragma once

#include "base/unique_fd.hpp"
#include "incage/probe/act.hpp"

#include <netinet/in.h>
#include <string_view>
#include <sys/socket.h>

namespace pinfold::probe {

constexpr int longest_wait_seconds = 10;

struct endpoint {
    union {
        sockaddr any;
        sockaddr_in v4;
        sockaddr_in6 v6;
    } address{};
    socklen_t size = 0;

    [[nodiscard]] int family() const noexcept { return address.any.sa_family; }
    [[nodiscard]] const sockaddr* get() const noexcept { return &address.any; }
    bool operator==(const endpoint& other) const noexcept;
};

// An IPv4 or IPv6 address as text, IPv6 with %interface where wanted; nothing is resolved. Throws usage_error.
[[nodiscard]] endpoint to_endpoint(std::string_view address, std::string_view port);

// A socket whose calls wait `longest_wait_seconds` at most. An empty fd with errno where it was refused.
[[nodiscard]] unique_fd make_socket(int family, int type, int protocol = 0);

// Waits for something to read; what came, as text. ETIMEDOUT where nothing did.
[[nodiscard]] outcome receive_text(int socket, std::size_t wanted);

// Any bytes as one printable line.
[[nodiscard]] std::string printable(std::string_view bytes);

} // namespace pinfold::probe
