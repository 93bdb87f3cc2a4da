#include "agent/tcp_listener.hpp"

#include "agent/relay/endpoint.hpp"
#include "base/error.hpp"

#include <arpa/inet.h>
#include <array>
#include <netinet/in.h>

namespace pinfold {

namespace {

constexpr int backlog = 1024;

std::string address_text(const endpoint& from) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    ::inet_ntop(from.family, from.address.data(), text.data(), text.size());
    return text.data();
}

} // namespace

tcp_listener listen_at(const std::string& address, std::uint16_t port) {
    const auto wanted = endpoint::parse(address, port);
    if (!wanted) fail("--listen {}: must be a numeric address", address);
    constexpr std::array<std::uint8_t, 16> any{};
    // A mesh address says who may come; a wildcard would let the whole LAN in.
    if (wanted->address == any)
        fail("--listen {}: must be one address of a mesh; this one stands for all of the machine's", address);
    sockaddr_storage to{};
    const socklen_t size = wanted->write(to);
    tcp_listener made;
    made.socket = unique_fd(
        check(::socket(wanted->family, SOCK_STREAM | SOCK_CLOEXEC, 0), "make a socket for {}", address));
    const int on = 1;
    ::setsockopt(made.socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (wanted->family == AF_INET6)
        ::setsockopt(made.socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    check(::bind(made.socket.get(), reinterpret_cast<const sockaddr*>(&to), size), "listen at {} port {}",
          address, port);
    check(::listen(made.socket.get(), backlog), "listen at {} port {}", address, port);
    made.host = wanted->is_v4() ? address_text(*wanted) : "[" + address_text(*wanted) + "]";
    return made;
}

std::string peer_address(int connection) {
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    if (::getpeername(connection, reinterpret_cast<sockaddr*>(&from), &size) != 0) return "unknown";
    const endpoint peer = endpoint::from(from, size);
    return peer.family == 0 ? "unknown" : address_text(peer);
}

} // namespace pinfold
