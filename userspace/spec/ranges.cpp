#include "spec/ranges.hpp"

#include <array>
#include <pinfold/denial.h>

namespace pinfold {
namespace {

using words = std::array<std::uint32_t, 4>;

struct entry {
    words value{};
    words mask{};
    address_range range;
};

constexpr std::uint32_t mask_word(unsigned length) {
    return length >= 32 ? ~0U : length == 0 ? 0U : ~0U << (32 - length);
}

constexpr words mask_of(unsigned length) {
    words mask{};
    for (unsigned i = 0; i < 4; ++i) mask[i] = mask_word(length > 32 * i ? length - 32 * i : 0);
    return mask;
}

constexpr bool never = true;

// In the order in which address.h asks, so that the first that holds an address is the one that refuses it.
// tests/unit/ranges_test.cpp asks both about the same addresses.
constexpr std::array ranges4{
    entry{{0x00000000},
          mask_of(8),
          {"0.0.0.0/8", "this host on this network", "RFC 1122", PINFOLD_RULE_THIS_HOST, never}},
    entry{{0x7f000000}, mask_of(8), {"127.0.0.0/8", "loopback", "RFC 1122", PINFOLD_RULE_THIS_HOST, never}},
    entry{{0xe0000000}, mask_of(4), {"224.0.0.0/4", "multicast", "RFC 1112", PINFOLD_RULE_MULTICAST, never}},
    entry{{0xffffffff},
          mask_of(32),
          {"255.255.255.255/32", "limited broadcast", "RFC 919", PINFOLD_RULE_MULTICAST, never}},
    entry{{0xf0000000},
          mask_of(4),
          {"240.0.0.0/4", "reserved for future use", "RFC 1112", PINFOLD_RULE_RESERVED, never}},
    entry{{0xc0000000},
          mask_of(29),
          {"192.0.0.0/29", "the network inside each cage", "RFC 7335", PINFOLD_RULE_RESERVED, never}},
    entry{{0x0a000000}, mask_of(8), {"10.0.0.0/8", "private networks", "RFC 1918", PINFOLD_RULE_PRIVATE}},
    entry{{0xac100000}, mask_of(12), {"172.16.0.0/12", "private networks", "RFC 1918", PINFOLD_RULE_PRIVATE}},
    entry{
        {0xc0a80000}, mask_of(16), {"192.168.0.0/16", "private networks", "RFC 1918", PINFOLD_RULE_PRIVATE}},
    entry{{0x64400000},
          mask_of(10),
          {"100.64.0.0/10", "shared by carriers and meshes", "RFC 6598", PINFOLD_RULE_SHARED}},
    entry{{0xa9fe0000},
          mask_of(16),
          {"169.254.0.0/16", "link-local, and clouds' metadata", "RFC 3927", PINFOLD_RULE_LINK_LOCAL}},
    entry{{0xc0000000},
          mask_of(24),
          {"192.0.0.0/24", "assigned to protocols", "RFC 6890", PINFOLD_RULE_RESERVED}},
    entry{{0xc6120000},
          mask_of(15),
          {"198.18.0.0/15", "benchmarks of network devices", "RFC 2544", PINFOLD_RULE_RESERVED}},
};

constexpr std::array ranges6{
    entry{{}, mask_of(128), {"::/128", "the unspecified address", "RFC 4291", PINFOLD_RULE_THIS_HOST, never}},
    entry{{0, 0, 0, 1}, mask_of(128), {"::1/128", "loopback", "RFC 4291", PINFOLD_RULE_THIS_HOST, never}},
    entry{{},
          mask_of(96),
          {"::/96", "IPv4-compatible, which tunnels send to the IPv4 address inside", "RFC 4291",
           PINFOLD_RULE_TUNNEL, never}},
    entry{{0xff000000}, mask_of(8), {"ff00::/8", "multicast", "RFC 4291", PINFOLD_RULE_MULTICAST, never}},
    entry{{0xfe800000}, mask_of(10), {"fe80::/10", "link-local", "RFC 4291", PINFOLD_RULE_LINK_LOCAL, never}},
    entry{{0xfd5eca9e, 0x00010000},
          mask_of(64),
          {"fd5e:ca9e:1::/64", "the network inside each cage", "", PINFOLD_RULE_RESERVED, never}},
    entry{{0xfc000000}, mask_of(7), {"fc00::/7", "unique local networks", "RFC 4193", PINFOLD_RULE_PRIVATE}},
    entry{{0xfec00000}, mask_of(10), {"fec0::/10", "site-local networks", "RFC 3879", PINFOLD_RULE_PRIVATE}},
    entry{{0x01000000}, mask_of(64), {"100::/64", "discarded", "RFC 6666", PINFOLD_RULE_RESERVED}},
    entry{{0x0064ff9b, 0x00010000},
          mask_of(48),
          {"64:ff9b:1::/48", "a site's own translation to IPv4", "RFC 8215", PINFOLD_RULE_RESERVED}},
    entry{{0, 0, 0xffff0000},
          mask_of(96),
          {"::ffff:0:0:0/96", "IPv4 in translation", "RFC 2765", PINFOLD_RULE_TUNNEL}},
    entry{{0x20010000},
          mask_of(32),
          {"2001::/32", "Teredo, a tunnel to an IPv4 address", "RFC 4380", PINFOLD_RULE_TUNNEL}},
    entry{{0x20020000},
          mask_of(16),
          {"2002::/16", "6to4, a tunnel to the IPv4 address inside", "RFC 3056", PINFOLD_RULE_TUNNEL}},
    // Not a prefix: the third word names the kind, whatever its two flag bits say.
    entry{{0, 0, 0x00005efe},
          {0, 0, 0xfcffffff},
          {"any prefix with ::5efe:a.b.c.d", "ISATAP, a tunnel to the IPv4 address inside", "RFC 5214",
           PINFOLD_RULE_TUNNEL}},
};

template <typename Table>
std::optional<address_range> find(const Table& table, const words& address) noexcept {
    for (const entry& each : table) {
        bool holds = true;
        for (unsigned i = 0; i < 4; ++i) holds = holds && (address[i] & each.mask[i]) == each.value[i];
        if (holds) return each.range;
    }
    return std::nullopt;
}

} // namespace

std::optional<address_range> range_of(std::span<const std::uint32_t> address) noexcept {
    words asked{};
    if (address.size() != 1 && address.size() != asked.size()) return std::nullopt;
    for (std::size_t i = 0; i < address.size(); ++i) asked[i] = address[i];
    return address.size() == 1 ? find(ranges4, asked) : find(ranges6, asked);
}

} // namespace pinfold
