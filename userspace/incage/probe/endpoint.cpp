#include "incage/probe/endpoint.hpp"

#include <arpa/inet.h>
#include <array>
#include <cstring>
#include <net/if.h>
#include <sys/time.h>

namespace pinfold::probe {

bool endpoint::operator==(const endpoint& other) const noexcept {
    if (family() != other.family()) return false;
    if (family() == AF_INET) return address.v4.sin_addr.s_addr == other.address.v4.sin_addr.s_addr;
    return std::memcmp(&address.v6.sin6_addr, &other.address.v6.sin6_addr, sizeof(in6_addr)) == 0;
}

endpoint to_endpoint(std::string_view address, std::string_view port) {
    const std::uint64_t wanted = number(port);
    if (wanted > 65535) throw usage_error("no port: " + std::string(port));
    const auto network_port = htons(static_cast<std::uint16_t>(wanted));
    endpoint found;
    const std::size_t zone = address.find('%');
    const std::string text(address.substr(0, zone));
    if (::inet_pton(AF_INET, text.c_str(), &found.address.v4.sin_addr) == 1) {
        found.address.v4.sin_family = AF_INET;
        found.address.v4.sin_port = network_port;
        found.size = sizeof found.address.v4;
        return found;
    }
    if (::inet_pton(AF_INET6, text.c_str(), &found.address.v6.sin6_addr) != 1)
        throw usage_error("no address: " + std::string(address));
    found.address.v6.sin6_family = AF_INET6;
    found.address.v6.sin6_port = network_port;
    if (zone != std::string_view::npos)
        found.address.v6.sin6_scope_id = ::if_nametoindex(std::string(address.substr(zone + 1)).c_str());
    found.size = sizeof found.address.v6;
    return found;
}

unique_fd make_socket(int family, int type, int protocol) {
    unique_fd made(::socket(family, type | SOCK_CLOEXEC, protocol));
    if (!made) return made;
    const timeval longest{.tv_sec = longest_wait_seconds, .tv_usec = 0};
    ::setsockopt(made.get(), SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof longest);
    ::setsockopt(made.get(), SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
    return made;
}

outcome receive_text(int socket, std::size_t wanted) {
    std::string text;
    std::array<char, 65536> part{};
    while (text.size() < wanted) {
        const ssize_t got = ::recv(socket, part.data(), part.size(), 0);
        if (got < 0) return refused(errno == EAGAIN ? ETIMEDOUT : errno, "receive " + printable(text));
        if (got == 0) break;
        text.append(part.data(), static_cast<std::size_t>(got));
    }
    return done(printable(text));
}

std::string printable(std::string_view bytes) {
    std::string text(bytes.substr(0, 4096));
    for (char& each : text)
        if (each < ' ' || each > '~') each = ' ';
    return text;
}

} // namespace pinfold::probe
