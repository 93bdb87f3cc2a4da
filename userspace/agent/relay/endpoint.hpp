// One end of a flow: family, address, port. IPv4 is never written as IPv6 here, so no rule can be slipped past that way.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/socket.h>

namespace pinfold {

struct endpoint {
    std::uint8_t family = 0;                   // AF_INET or AF_INET6; 0 = none
    std::uint16_t port = 0;                    // host byte order; an echo flow has its identifier here
    std::uint32_t scope = 0;                   // the link of a link-local resolver, else 0
    std::array<std::uint8_t, 16> address = {}; // network byte order; IPv4 in the first four bytes

    auto operator<=>(const endpoint&) const = default;

    [[nodiscard]] static endpoint v4(std::uint32_t host_order, std::uint16_t port);
    [[nodiscard]] static endpoint v6(const std::array<std::uint32_t, 4>& words, std::uint16_t port);
    // Unmaps ::ffff:a.b.c.d; family 0 for any other family or a short address.
    [[nodiscard]] static endpoint from(const sockaddr_storage& from, socklen_t size);
    // A numeric address, "fe80::1%eth0" too.
    [[nodiscard]] static std::optional<endpoint> parse(std::string_view address, std::uint16_t port);

    [[nodiscard]] bool is_v4() const noexcept;
    [[nodiscard]] std::uint32_t v4() const noexcept;                   // host byte order
    [[nodiscard]] std::array<std::uint32_t, 4> words() const noexcept; // host byte order
    [[nodiscard]] bool is_v4_mapped() const noexcept;                  // ::ffff:0:0/96 as an IPv6 address
    [[nodiscard]] std::size_t address_size() const noexcept { return is_v4() ? 4 : 16; }

    socklen_t write(sockaddr_storage& to) const; // its size
    [[nodiscard]] std::string text() const;      // 1.2.3.4:80, [::1]:80
};

// What tells one flow of a cage from another.
struct flow_key {
    std::uint8_t protocol = 0; // IPPROTO_*
    endpoint source;           // the application's
    endpoint destination;      // the one it asked for

    bool operator==(const flow_key&) const = default;
};

// Seeded at random: a cage chooses what is hashed, and must not be able to choose where it lands.
class flow_hash {
public:
    flow_hash();
    [[nodiscard]] std::size_t operator()(const flow_key& key) const noexcept;

private:
    std::array<std::uint64_t, 2> seed_{};
};

} // namespace pinfold
