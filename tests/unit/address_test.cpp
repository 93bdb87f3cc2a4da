// Every class of boundary.md's "Local", at its edges, as the guards and the relay judge it.
#include "support/catch.hpp"

#include <arpa/inet.h>
#include <array>
#include <cstdint>
#include <cstring>
#include <pinfold/address.h>
#include <stdexcept>
#include <string>

namespace {

std::uint32_t four(const std::string& text) {
    std::uint32_t word = 0;
    if (::inet_pton(AF_INET, text.c_str(), &word) != 1) throw std::invalid_argument(text);
    return ntohl(word);
}

std::array<std::uint32_t, 4> six(const std::string& text) {
    std::array<std::uint32_t, 4> words{};
    if (::inet_pton(AF_INET6, text.c_str(), words.data()) != 1) throw std::invalid_argument(text);
    for (auto& word : words) word = ntohl(word);
    return words;
}

pinfold_rule judge(const std::string& text, std::uint32_t mode) {
    if (text.find(':') == std::string::npos) return pinfold_judge4(four(text), mode);
    return pinfold_judge6(six(text).data(), mode);
}

bool own(const std::string& text) {
    if (text.find(':') == std::string::npos) return pinfold_own4(four(text)) != 0;
    return pinfold_own6(six(text).data()) != 0;
}

bool gateway(const std::string& text) {
    if (text.find(':') == std::string::npos) return pinfold_gateway4(four(text)) != 0;
    return pinfold_gateway6(six(text).data()) != 0;
}

struct row {
    const char* address;
    pinfold_rule sealed;
    pinfold_rule caged = PINFOLD_RULE_NONE;
};

// What no mode opens, then what only caged opens, then what both do. Each range with both edges and their neighbours.
const row rows[] = {
    {"0.0.0.0", PINFOLD_RULE_THIS_HOST, PINFOLD_RULE_THIS_HOST},
    {"0.0.0.1", PINFOLD_RULE_THIS_HOST, PINFOLD_RULE_THIS_HOST},
    {"0.255.255.255", PINFOLD_RULE_THIS_HOST, PINFOLD_RULE_THIS_HOST},
    {"1.0.0.0", PINFOLD_RULE_NONE},
    {"126.255.255.255", PINFOLD_RULE_NONE},
    {"127.0.0.0", PINFOLD_RULE_THIS_HOST, PINFOLD_RULE_THIS_HOST},
    {"127.0.0.1", PINFOLD_RULE_THIS_HOST, PINFOLD_RULE_THIS_HOST},
    {"127.0.0.53", PINFOLD_RULE_THIS_HOST, PINFOLD_RULE_THIS_HOST},
    {"127.255.255.255", PINFOLD_RULE_THIS_HOST, PINFOLD_RULE_THIS_HOST},
    {"128.0.0.0", PINFOLD_RULE_NONE},
    {"223.255.255.255", PINFOLD_RULE_NONE},
    {"224.0.0.0", PINFOLD_RULE_MULTICAST, PINFOLD_RULE_MULTICAST},
    {"239.255.255.255", PINFOLD_RULE_MULTICAST, PINFOLD_RULE_MULTICAST},
    {"240.0.0.0", PINFOLD_RULE_RESERVED, PINFOLD_RULE_RESERVED},
    {"255.255.255.254", PINFOLD_RULE_RESERVED, PINFOLD_RULE_RESERVED},
    {"255.255.255.255", PINFOLD_RULE_MULTICAST, PINFOLD_RULE_MULTICAST},
    // The cages' own range: nobody else's, and the machine's default route would take it.
    {"191.255.255.255", PINFOLD_RULE_NONE},
    {"192.0.0.0", PINFOLD_RULE_RESERVED, PINFOLD_RULE_RESERVED},
    {"192.0.0.1", PINFOLD_RULE_RESERVED, PINFOLD_RULE_RESERVED},
    {"192.0.0.2", PINFOLD_RULE_RESERVED, PINFOLD_RULE_RESERVED},
    {"192.0.0.7", PINFOLD_RULE_RESERVED, PINFOLD_RULE_RESERVED},
    {"192.0.0.8", PINFOLD_RULE_RESERVED},
    {"192.0.0.255", PINFOLD_RULE_RESERVED},
    {"192.0.1.0", PINFOLD_RULE_NONE},

    {"9.255.255.255", PINFOLD_RULE_NONE},
    {"10.0.0.0", PINFOLD_RULE_PRIVATE},
    {"10.255.255.255", PINFOLD_RULE_PRIVATE},
    {"11.0.0.0", PINFOLD_RULE_NONE},
    {"100.63.255.255", PINFOLD_RULE_NONE},
    {"100.64.0.0", PINFOLD_RULE_SHARED},
    {"100.127.255.255", PINFOLD_RULE_SHARED},
    {"100.128.0.0", PINFOLD_RULE_NONE},
    {"169.253.255.255", PINFOLD_RULE_NONE},
    {"169.254.0.0", PINFOLD_RULE_LINK_LOCAL},
    {"169.254.169.254", PINFOLD_RULE_LINK_LOCAL},
    {"169.254.255.255", PINFOLD_RULE_LINK_LOCAL},
    {"169.255.0.0", PINFOLD_RULE_NONE},
    {"172.15.255.255", PINFOLD_RULE_NONE},
    {"172.16.0.0", PINFOLD_RULE_PRIVATE},
    {"172.31.255.255", PINFOLD_RULE_PRIVATE},
    {"172.32.0.0", PINFOLD_RULE_NONE},
    {"192.167.255.255", PINFOLD_RULE_NONE},
    {"192.168.0.0", PINFOLD_RULE_PRIVATE},
    {"192.168.255.255", PINFOLD_RULE_PRIVATE},
    {"192.169.0.0", PINFOLD_RULE_NONE},
    {"198.17.255.255", PINFOLD_RULE_NONE},
    {"198.18.0.0", PINFOLD_RULE_RESERVED},
    {"198.19.255.255", PINFOLD_RULE_RESERVED},
    {"198.20.0.0", PINFOLD_RULE_NONE},
    {"1.1.1.1", PINFOLD_RULE_NONE},
    {"93.184.216.34", PINFOLD_RULE_NONE},

    {"::", PINFOLD_RULE_THIS_HOST, PINFOLD_RULE_THIS_HOST},
    {"::1", PINFOLD_RULE_THIS_HOST, PINFOLD_RULE_THIS_HOST},
    {"::2", PINFOLD_RULE_TUNNEL, PINFOLD_RULE_TUNNEL},
    {"::7f00:1", PINFOLD_RULE_TUNNEL, PINFOLD_RULE_TUNNEL},
    {"::93.184.216.34", PINFOLD_RULE_TUNNEL, PINFOLD_RULE_TUNNEL},
    {"::ffff:ffff", PINFOLD_RULE_TUNNEL, PINFOLD_RULE_TUNNEL},
    {"fe7f:ffff::1", PINFOLD_RULE_NONE},
    {"fe80::", PINFOLD_RULE_LINK_LOCAL, PINFOLD_RULE_LINK_LOCAL},
    {"febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", PINFOLD_RULE_LINK_LOCAL, PINFOLD_RULE_LINK_LOCAL},
    {"ff00::", PINFOLD_RULE_MULTICAST, PINFOLD_RULE_MULTICAST},
    {"ff02::1", PINFOLD_RULE_MULTICAST, PINFOLD_RULE_MULTICAST},
    {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", PINFOLD_RULE_MULTICAST, PINFOLD_RULE_MULTICAST},
    {"fd5e:ca9e:1::", PINFOLD_RULE_RESERVED, PINFOLD_RULE_RESERVED},
    {"fd5e:ca9e:1::1", PINFOLD_RULE_RESERVED, PINFOLD_RULE_RESERVED},
    {"fd5e:ca9e:1::2", PINFOLD_RULE_RESERVED, PINFOLD_RULE_RESERVED},
    {"fd5e:ca9e:1:0:ffff:ffff:ffff:ffff", PINFOLD_RULE_RESERVED, PINFOLD_RULE_RESERVED},
    {"fd5e:ca9e:1:1::", PINFOLD_RULE_PRIVATE},

    {"64:ff9b:0:ffff:ffff:ffff:ffff:ffff", PINFOLD_RULE_NONE},
    {"64:ff9b:1::", PINFOLD_RULE_RESERVED},
    {"64:ff9b:1:ffff:ffff:ffff:ffff:ffff", PINFOLD_RULE_RESERVED},
    {"64:ff9b:2::", PINFOLD_RULE_NONE},
    {"ff:ffff::1", PINFOLD_RULE_NONE},
    {"100::", PINFOLD_RULE_RESERVED},
    {"100::ffff:ffff:ffff:ffff", PINFOLD_RULE_RESERVED},
    {"100:0:0:1::", PINFOLD_RULE_NONE},
    {"2000:ffff::1", PINFOLD_RULE_NONE},
    {"2001::", PINFOLD_RULE_TUNNEL},
    {"2001:0:ffff:ffff:ffff:ffff:ffff:ffff", PINFOLD_RULE_TUNNEL},
    {"2001:1::", PINFOLD_RULE_NONE},
    {"2001:4860:4860::8888", PINFOLD_RULE_NONE},
    {"2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff", PINFOLD_RULE_NONE},
    {"2002::", PINFOLD_RULE_TUNNEL},
    {"2002:a00:1::1", PINFOLD_RULE_TUNNEL},
    {"2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", PINFOLD_RULE_TUNNEL},
    {"2003::", PINFOLD_RULE_NONE},
    {"fbff:ffff::1", PINFOLD_RULE_NONE},
    {"fc00::", PINFOLD_RULE_PRIVATE},
    {"fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", PINFOLD_RULE_PRIVATE},
    {"fe00::", PINFOLD_RULE_NONE},
    {"fec0::", PINFOLD_RULE_PRIVATE},
    {"feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", PINFOLD_RULE_PRIVATE},
    {"2606:4700:4700::1111", PINFOLD_RULE_NONE},
    {"2606:4700::5efe:10.0.0.1", PINFOLD_RULE_TUNNEL},
    {"2606:4700::200:5efe:10.0.0.1", PINFOLD_RULE_TUNNEL},
    {"2606:4700::100:5efe:93.184.216.34", PINFOLD_RULE_TUNNEL},
    {"2606:4700::300:5efe:93.184.216.34", PINFOLD_RULE_TUNNEL},
    {"2606:4700::400:5efe:10.0.0.1", PINFOLD_RULE_NONE},
    {"2606:4700::1:5efe:10.0.0.1", PINFOLD_RULE_NONE},
    {"2606:4700::5eff:10.0.0.1", PINFOLD_RULE_NONE},
    {"::ffff:0:10.0.0.1", PINFOLD_RULE_TUNNEL},
    {"::ffff:0:93.184.216.34", PINFOLD_RULE_TUNNEL},
};

} // namespace

TEST_CASE("every class of local address is refused to a sealed cage, and to no caged one what it may reach") {
    for (const row& line : rows) {
        CAPTURE(line.address);
        CHECK(judge(line.address, PINFOLD_SEALED) == line.sealed);
        CHECK(judge(line.address, PINFOLD_CAGED) == line.caged);
    }
}

TEST_CASE("without a policy every address is refused") {
    for (const row& line : rows) CHECK(judge(line.address, PINFOLD_DENY_ALL) == PINFOLD_RULE_NO_POLICY);
}

TEST_CASE("a mode that is not known is as strict as sealed") {
    for (const row& line : rows) CHECK(judge(line.address, 77) == line.sealed);
}

TEST_CASE("an address that carries an IPv4 address is judged by that one") {
    for (const row& line : rows) {
        const std::string inner = line.address;
        if (inner.find(':') != std::string::npos) continue;
        for (const char* prefix : {"::ffff:", "64:ff9b::"}) {
            CAPTURE(prefix, inner);
            CHECK(judge(prefix + inner, PINFOLD_SEALED) == line.sealed);
            CHECK(judge(prefix + inner, PINFOLD_CAGED) == line.caged);
        }
    }
}

TEST_CASE("what stays in a cage is its loopback, its own address and the unspecified ones, mapped or not") {
    for (const char* address :
         {"0.0.0.0", "127.0.0.0", "127.0.0.1", "127.99.99.99", "127.255.255.255", "192.0.0.2"}) {
        CAPTURE(address);
        CHECK(own(address));
        CHECK(own(std::string("::ffff:") + address));
        CHECK_FALSE(own(std::string("64:ff9b::") + address)); // this one leaves, by a translator
    }
    for (const char* address : {"::", "::1", "fd5e:ca9e:1::2"}) CHECK(own(address));
    for (const char* address :
         {"0.0.0.1", "126.255.255.255", "128.0.0.0", "192.0.0.1", "192.0.0.3", "10.0.0.1", "::2", "::7f00:1",
          "fd5e:ca9e:1::1", "fd5e:ca9e:1::3", "fd5e:ca9e:1:1::2", "fe80::1", "2606:4700:4700::1111"}) {
        CAPTURE(address);
        CHECK_FALSE(own(address));
    }
}

TEST_CASE("the gateway has two addresses, and the mapped form of one") {
    for (const char* address : {"192.0.0.1", "::ffff:192.0.0.1", "fd5e:ca9e:1::1"}) CHECK(gateway(address));
    for (const char* address :
         {"192.0.0.0", "192.0.0.2", "64:ff9b::192.0.0.1", "fd5e:ca9e:1::", "fd5e:ca9e:1::2", "::1"})
        CHECK_FALSE(gateway(address));
}

TEST_CASE("the agents' port is TCP 7387 alone") {
    CHECK(pinfold_agent_port(1, 7387));
    CHECK_FALSE(pinfold_agent_port(0, 7387));
    CHECK_FALSE(pinfold_agent_port(1, 7386));
    CHECK_FALSE(pinfold_agent_port(1, 7388));
    CHECK_FALSE(pinfold_agent_port(1, 443));
}
