#include "keeper/routes.hpp"

#include <algorithm>
#include <cstring>
#include <linux/fib_rules.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <map>
#include <sys/socket.h>

namespace pinfold {
namespace {

// A link that goes down takes its IPv4 routes with it without a word about them, so links are watched too.
constexpr std::uint32_t watched = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE |
                                  RTMGRP_IPV6_ROUTE | 1U << (RTNLGRP_IPV4_RULE - 1) |
                                  1U << (RTNLGRP_IPV6_RULE - 1);

std::size_t address_size(std::uint8_t family) {
    return family == AF_INET ? 4 : 16;
}

bool is_internet(std::uint8_t family) {
    return family == AF_INET || family == AF_INET6;
}

// Loopback, link-local and multicast are refused by address.h in every cage; in the tries they would only be noise.
bool is_noise(const local_prefix& prefix) {
    const std::uint8_t* bytes = prefix.address;
    if (prefix.family == AF_INET)
        return (prefix.length >= 8 && bytes[0] == 127) || (prefix.length >= 4 && bytes[0] >= 224);
    static constexpr std::uint8_t own_loopback[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    return (prefix.length >= 8 && bytes[0] == 0xff) ||
           (prefix.length >= 10 && bytes[0] == 0xfe && bytes[1] >> 6 == 2) ||
           (prefix.length == 128 && std::memcmp(bytes, own_loopback, 16) == 0);
}

template <typename Listed>
local_prefix prefix_of(const Listed& listed, std::uint8_t length, bool machine) {
    local_prefix prefix = {.family = listed.family, .length = length, .machine = machine};
    std::memcpy(prefix.address, listed.address, address_size(listed.family));
    return prefix;
}

// Which halves of all addresses have a route, by table: bit 0 the lower one, bit 1 the upper one.
std::map<used_table, int> halves_of(std::span<const listed_route> routes) {
    std::map<used_table, int> halves;
    for (const listed_route& route : routes)
        if (route.length == 1) halves[{route.family, route.table}] |= route.address[0] < 0x80 ? 1 : 2;
    return halves;
}

// The attributes of a message after its header, for as long as `each` wants to see them.
template <typename Header, typename Each>
void for_each_attribute(const nlmsghdr& message, Each each) {
    if (message.nlmsg_len < NLMSG_SPACE(sizeof(Header))) return;
    const auto* at = reinterpret_cast<const char*>(&message) + NLMSG_SPACE(sizeof(Header));
    std::size_t left = message.nlmsg_len - NLMSG_SPACE(sizeof(Header));
    while (left >= sizeof(rtattr)) {
        const auto* attribute = reinterpret_cast<const rtattr*>(at);
        if (attribute->rta_len < sizeof(rtattr) || attribute->rta_len > left) return;
        each(attribute->rta_type, at + RTA_LENGTH(0), attribute->rta_len - RTA_LENGTH(0));
        const std::size_t step = std::min<std::size_t>(RTA_ALIGN(attribute->rta_len), left);
        at += step;
        left -= step;
    }
}

template <typename Header>
Header header_of(const nlmsghdr& message) {
    Header header = {};
    std::memcpy(&header, NLMSG_DATA(&message),
                std::min<std::size_t>(sizeof header, message.nlmsg_len - NLMSG_HDRLEN));
    return header;
}

std::vector<listed_address> read_addresses(netlink_socket& lists) {
    std::vector<listed_address> all;
    lists.dump(
        RTM_GETADDR, AF_UNSPEC, [&] { all.clear(); },
        [&](const nlmsghdr& message) {
            const auto header = header_of<ifaddrmsg>(message);
            if (message.nlmsg_type != RTM_NEWADDR || !is_internet(header.ifa_family)) return;
            listed_address address = {.family = header.ifa_family};
            bool local = false; // on a point-to-point link IFA_ADDRESS is the other end, and IFA_LOCAL ours
            for_each_attribute<ifaddrmsg>(message, [&](int type, const char* value, std::size_t size) {
                if ((type != IFA_LOCAL && (type != IFA_ADDRESS || local)) ||
                    size != address_size(header.ifa_family))
                    return;
                std::memcpy(address.address, value, size);
                local = type == IFA_LOCAL;
            });
            all.push_back(address);
        });
    return all;
}

std::vector<listed_route> read_routes(netlink_socket& lists) {
    std::vector<listed_route> all;
    lists.dump(
        RTM_GETROUTE, AF_UNSPEC, [&] { all.clear(); },
        [&](const nlmsghdr& message) {
            const auto header = header_of<rtmsg>(message);
            if (message.nlmsg_type != RTM_NEWROUTE || !is_internet(header.rtm_family)) return;
            if ((header.rtm_flags & RTM_F_CLONED) != 0)
                return; // what was learned about one destination, a path MTU say
            listed_route route = {.family = header.rtm_family,
                                  .length = header.rtm_dst_len,
                                  .type = header.rtm_type,
                                  .table = header.rtm_table};
            for_each_attribute<rtmsg>(message, [&](int type, const char* value, std::size_t size) {
                if (type == RTA_TABLE && size == sizeof route.table) std::memcpy(&route.table, value, size);
                if (type == RTA_DST && size == address_size(route.family))
                    std::memcpy(route.address, value, size);
            });
            all.push_back(route);
        });
    return all;
}

std::set<used_table> read_tables(netlink_socket& lists) {
    std::set<used_table> all;
    lists.dump(
        RTM_GETRULE, AF_UNSPEC, [&] { all.clear(); },
        [&](const nlmsghdr& message) {
            const auto header = header_of<fib_rule_hdr>(message);
            if (message.nlmsg_type != RTM_NEWRULE || !is_internet(header.family)) return;
            std::uint32_t table = header.table;
            for_each_attribute<fib_rule_hdr>(message, [&](int type, const char* value, std::size_t size) {
                if (type == FRA_TABLE && size == sizeof table) std::memcpy(&table, value, size);
            });
            if (table != RT_TABLE_UNSPEC) all.emplace(header.family, table);
        });
    return all;
}

} // namespace

std::vector<local_prefix> local_prefixes(std::span<const listed_address> addresses,
                                         std::span<const listed_route> routes,
                                         const std::set<used_table>& tables) {
    std::map<local_prefix, bool> found; // without its flag -> whether it is the machine itself
    const auto add = [&](local_prefix prefix) {
        const bool machine = std::exchange(prefix.machine, false);
        if (is_noise(prefix)) return;
        bool& known = found[prefix];
        known = known || machine;
    };
    for (const listed_address& address : addresses)
        add(prefix_of(address, static_cast<std::uint8_t>(address_size(address.family) * 8), true));

    const auto halves = halves_of(routes);
    for (const listed_route& route : routes) {
        const used_table table = {route.family, route.table};
        if (route.length == 0 || !tables.contains(table)) continue;
        if (route.length == 1 && halves.at(table) == 3) continue;
        // A "throw" only leads to the next table; broadcast and multicast are within prefixes that are listed, or noise.
        if (route.type == RTN_BROADCAST || route.type == RTN_MULTICAST || route.type == RTN_THROW) continue;
        add(prefix_of(route, route.length, route.type == RTN_LOCAL || route.type == RTN_ANYCAST));
    }
    std::vector<local_prefix> all;
    for (const auto& [prefix, machine] : found) {
        all.push_back(prefix);
        all.back().machine = machine;
    }
    return all;
}

routes::routes() : news_(watched) {}

std::vector<local_prefix> routes::refresh() {
    news_.drain(); // first, so that what changes from here on is news again
    const auto addresses = read_addresses(lists_);
    const auto listed = read_routes(lists_);
    return local_prefixes(addresses, listed, read_tables(lists_));
}

} // namespace pinfold
