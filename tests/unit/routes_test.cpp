#include "keeper/routes.hpp"
#include "support/catch.hpp"

#include <arpa/inet.h>
#include <cstring>
#include <fmt/format.h>
#include <linux/rtnetlink.h>
#include <string>

using namespace pinfold;

namespace {

std::uint8_t parse(const std::string& text, std::uint8_t* into) {
    const std::uint8_t family = text.find(':') == std::string::npos ? AF_INET : AF_INET6;
    REQUIRE(::inet_pton(family, text.c_str(), into) == 1);
    return family;
}

listed_address address(const std::string& text) {
    listed_address made;
    made.family = parse(text, made.address);
    return made;
}

listed_route route(const std::string& text, std::uint8_t length, std::uint8_t type = RTN_UNICAST,
                   std::uint32_t table = RT_TABLE_MAIN) {
    listed_route made = {.length = length, .type = type, .table = table};
    made.family = parse(text, made.address);
    return made;
}

const std::set<used_table> usual{{AF_INET, RT_TABLE_LOCAL},
                                 {AF_INET, RT_TABLE_MAIN},
                                 {AF_INET, RT_TABLE_DEFAULT},
                                 {AF_INET6, RT_TABLE_LOCAL},
                                 {AF_INET6, RT_TABLE_MAIN}};

// "10.0.0.0/8 route", "10.1.2.3/32 machine", …
std::vector<std::string> found(const std::vector<listed_address>& addresses,
                               const std::vector<listed_route>& routes,
                               const std::set<used_table>& tables = usual) {
    std::vector<std::string> texts;
    for (const local_prefix& prefix : local_prefixes(addresses, routes, tables)) {
        char text[INET6_ADDRSTRLEN];
        ::inet_ntop(prefix.family, prefix.address, text, sizeof text);
        texts.push_back(fmt::format("{}/{} {}", text, prefix.length, prefix.machine ? "machine" : "route"));
    }
    return texts;
}

using texts = std::vector<std::string>;

} // namespace

TEST_CASE("a machine on a LAN has its own addresses and its on-link prefixes as local ones") {
    CHECK(found({address("127.0.0.1"), address("203.0.113.9"), address("::1"), address("2001:db8:5::9"),
                 address("fe80::1")},
                {route("0.0.0.0", 0), route("203.0.113.0", 24), route("::", 0), route("2001:db8:5::", 64),
                 route("fe80::", 64), route("127.0.0.0", 8, RTN_LOCAL, RT_TABLE_LOCAL),
                 route("127.0.0.1", 32, RTN_LOCAL, RT_TABLE_LOCAL),
                 route("203.0.113.9", 32, RTN_LOCAL, RT_TABLE_LOCAL),
                 route("203.0.113.255", 32, RTN_BROADCAST, RT_TABLE_LOCAL),
                 route("::1", 128, RTN_LOCAL, RT_TABLE_LOCAL),
                 route("2001:db8:5::", 128, RTN_ANYCAST, RT_TABLE_LOCAL),
                 route("2001:db8:5::9", 128, RTN_LOCAL, RT_TABLE_LOCAL),
                 route("ff00::", 8, RTN_MULTICAST, RT_TABLE_LOCAL)}) ==
          texts{"203.0.113.0/24 route", "203.0.113.9/32 machine", "2001:db8:5::/64 route",
                "2001:db8:5::/128 machine", "2001:db8:5::9/128 machine"});
}

TEST_CASE("a default route makes nothing local, nor do its two halves") {
    CHECK(found({}, {route("0.0.0.0", 0), route("::", 0)}).empty());
    CHECK(
        found({}, {route("0.0.0.0", 1), route("128.0.0.0", 1), route("::", 1), route("8000::", 1)}).empty());
}

TEST_CASE("one half of all addresses is a route of its own") {
    CHECK(found({}, {route("0.0.0.0", 1)}) == texts{"0.0.0.0/1 route"});
    CHECK(found({}, {route("128.0.0.0", 1), route("::", 1), route("8000::", 1)}) ==
          texts{"128.0.0.0/1 route"});
    // Two halves of different tables are no default of either.
    CHECK(found({}, {route("0.0.0.0", 1), route("128.0.0.0", 1, RTN_UNICAST, RT_TABLE_DEFAULT)}).size() == 2);
}

TEST_CASE("a mesh and a split tunnel in a table of their own are local as soon as a rule names the table") {
    const std::vector<listed_route> mesh{route("203.0.113.64", 26, RTN_UNICAST, 52),
                                         route("2001:db8:77::", 48, RTN_UNICAST, 1000)};
    CHECK(found({}, mesh).empty());
    auto tables = usual;
    tables.emplace(AF_INET, 52);
    tables.emplace(AF_INET6, 52); // of the other family: not the one of the second route
    CHECK(found({}, mesh, tables) == texts{"203.0.113.64/26 route"});
    tables.emplace(AF_INET6, 1000);
    CHECK(found({}, mesh, tables).size() == 2);
}

TEST_CASE("a prefix that the machine answers for as a whole is the machine's") {
    CHECK(found({}, {route("203.0.113.0", 28, RTN_LOCAL, RT_TABLE_LOCAL), route("203.0.113.0", 28)}) ==
          texts{"203.0.113.0/28 machine"});
}

TEST_CASE("a route that leads nowhere is local, one that only leads to the next table is not") {
    CHECK(found({}, {route("203.0.113.0", 24, RTN_UNREACHABLE), route("203.0.114.0", 24, RTN_BLACKHOLE),
                     route("203.0.115.0", 24, RTN_PROHIBIT), route("203.0.116.0", 24, RTN_THROW)}) ==
          texts{"203.0.113.0/24 route", "203.0.114.0/24 route", "203.0.115.0/24 route"});
}

TEST_CASE("a public address on a point-to-point link is the machine's") {
    CHECK(found({address("198.51.100.4")}, {route("198.51.100.5", 32)}) ==
          texts{"198.51.100.4/32 machine", "198.51.100.5/32 route"});
}

TEST_CASE("what this machine lists can be read, and its own loopback is not in it") {
    routes here;
    const auto prefixes = here.refresh();
    for (const local_prefix& prefix : prefixes) {
        CHECK((prefix.family == AF_INET || prefix.family == AF_INET6));
        CHECK(prefix.length > 0);
        CHECK((prefix.family != AF_INET || prefix.address[0] != 127));
    }
}
