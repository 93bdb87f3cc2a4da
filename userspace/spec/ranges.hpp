// Where a rule about addresses comes from: the range of address.h that holds one, and the document that sets it aside.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace pinfold {

struct address_range {
    std::string_view text;   // "192.168.0.0/16"
    std::string_view name;   // "private networks"
    std::string_view source; // "RFC 1918"; empty where pinfold itself took it
    std::uint32_t rule = 0;  // enum pinfold_rule
    bool never = false;      // refused in every mode, not only when sealed
};

// The range that address.h refuses it for when sealed, nothing for an address of the internet. One word is IPv4, four are
// IPv6, in host byte order. An IPv4 address that an IPv6 one carries (pinfold_carries4) is asked for by itself.
[[nodiscard]] std::optional<address_range> range_of(std::span<const std::uint32_t> address) noexcept;

} // namespace pinfold
