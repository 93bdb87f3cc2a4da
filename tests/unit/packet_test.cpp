#include "agent/relay/checksum.hpp"
#include "agent/relay/destinations.hpp"
#include "agent/relay/packet.hpp"
#include "agent/relay/packet_headers.hpp"
#include "pinfold/denial.h"
#include "pinfold/network.h"
#include "support/catch.hpp"

#include <algorithm>
#include <netinet/in.h>
#include <vector>

namespace pinfold {

namespace {

using byte_vector = std::vector<std::byte>;

byte_vector from_hex(std::string_view text) {
    byte_vector made;
    for (std::size_t i = 0; i + 1 < text.size(); i += 2)
        made.push_back(static_cast<std::byte>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
    return made;
}

const endpoint web4 = endpoint::v4(0x5db8d822, 80),
               web6 = endpoint::v6({0x26062800, 0x02200001, 0, 0x34}, 80);

endpoint own(bool v4, std::uint16_t port) {
    return v4 ? endpoint::v4(PINFOLD_OWN4, port) : endpoint::v6(PINFOLD_OWN6_WORDS, port);
}

// What a cage would send: the builders make packets from a flow's destination to its source, so with the ends swapped.
flow_key backwards(std::uint8_t protocol, const endpoint& to, std::uint16_t own_port) {
    return {.protocol = protocol, .source = to, .destination = own(to.is_v4(), own_port)};
}

byte_vector udp_packet(const endpoint& to, std::string_view text) {
    byte_vector space(largest_packet);
    const flow_key flow = backwards(IPPROTO_UDP, to, 4000);
    std::ranges::copy(std::as_bytes(std::span(text)), payload_room(space, flow).begin());
    const buffer made = build_udp(space, flow, text.size());
    return {made.begin(), made.end()};
}

void fix_transport_sum(byte_vector& packet, std::size_t header, std::size_t at, std::uint8_t protocol) {
    const std::span<std::byte> whole(packet);
    put16(whole, header + at, 0);
    checksum sum;
    const std::size_t addresses = header == ip4_header ? 12 : 8;
    sum.add(whole.subspan(addresses, header - addresses));
    sum.add32(static_cast<std::uint32_t>(packet.size() - header));
    sum.add16(protocol);
    sum.add(whole.subspan(header));
    put16(whole, header + at, sum.value());
}

void fix_ip4_sum(byte_vector& packet) {
    put16(packet, 10, 0);
    checksum sum;
    sum.add(std::span(packet).first(ip4_header));
    put16(packet, 10, sum.value());
}

// A SYN of the cage, from the RST that the builder would write the other way.
byte_vector syn_packet(const endpoint& to) {
    byte_vector space(largest_packet);
    const buffer made = build_reset(space, backwards(IPPROTO_TCP, to, 4000), 0);
    byte_vector packet(made.begin(), made.end());
    const std::size_t header = to.is_v4() ? ip4_header : ip6_header;
    put32(packet, header + 4, 0x12345678);
    put8(packet, header + 13, tcp_syn);
    fix_transport_sum(packet, header, 16, IPPROTO_TCP);
    return packet;
}

drop reason(const byte_vector& packet) {
    const auto read = parse_packet(packet);
    REQUIRE_FALSE(read.has_value());
    return read.error();
}

} // namespace

TEST_CASE("the checksum is RFC 1071's, over pieces and odd lengths") {
    checksum example; // the RFC's own numbers
    example.add(from_hex("0001f203f4f5f6f7"));
    CHECK(example.value() == static_cast<std::uint16_t>(~0xddf2));
    checksum odd;
    odd.add(from_hex("0001f2"));
    checksum padded;
    padded.add(from_hex("0001f200"));
    CHECK(odd.value() == padded.value());
    checksum header; // a header seen on a network, with its own sum in it
    header.add(from_hex("45000073000040004011b861c0a80001c0a800c7"));
    CHECK(header.value() == 0);
}

TEST_CASE("a SYN is read with its key and its sequence number, of both families") {
    for (const endpoint& to : {web4, web6}) {
        const byte_vector bytes = syn_packet(to);
        const auto read = parse_packet(bytes);
        REQUIRE(read.has_value());
        CHECK(read->kind == packet_kind::syn);
        CHECK(read->flow ==
              flow_key{.protocol = IPPROTO_TCP, .source = own(to.is_v4(), 4000), .destination = to});
        CHECK(read->sequence == 0x12345678);
        CHECK(read->whole.size() == bytes.size());
    }
}

TEST_CASE("a datagram is read with its payload, of both families") {
    for (const endpoint& to : {web4, web6}) {
        const byte_vector bytes = udp_packet(to, "hello");
        const auto read = parse_packet(bytes);
        REQUIRE(read.has_value());
        CHECK(read->kind == packet_kind::udp);
        CHECK(read->flow.destination == to);
        CHECK(read->payload.size() == 5);
    }
}

TEST_CASE("an echo request is read with its identifier as the port") {
    for (const endpoint& to : {web4, web6}) {
        byte_vector space(largest_packet);
        const bool v4 = to.is_v4();
        flow_key flow = backwards(icmp_protocol(v4), to, 0);
        flow.source.port = 77;
        const buffer made = build_echo_reply(space, flow, 9, 4);
        byte_vector bytes(made.begin(), made.end());
        const std::size_t header = v4 ? ip4_header : ip6_header;
        CHECK(reason(bytes) == drop::protocol); // a reply is not taken
        // The sum of the type's change: 0 -> 8, 129 -> 128, in the high byte of the first word.
        put8(bytes, header, v4 ? echo_request4 : echo_request6);
        put16(bytes, header + 2,
              static_cast<std::uint16_t>(get16(bytes, header + 2) + (v4 ? -0x0800 : 0x0100)));
        const auto read = parse_packet(bytes);
        REQUIRE(read.has_value());
        CHECK(read->kind == packet_kind::echo);
        CHECK(read->flow.source.port == 77);
        CHECK(read->flow.destination.port == 0);
        CHECK(read->sequence == 9);
        CHECK(read->payload.size() == 4);
    }
}

TEST_CASE("what a cage may have made by hand is dropped, each for its reason") {
    const auto changed = [](byte_vector packet, std::size_t at, std::uint8_t value, bool fix = true) {
        put8(packet, at, value);
        if (fix) fix_ip4_sum(packet);
        return packet;
    };
    const byte_vector udp = udp_packet(web4, "hello"), syn = syn_packet(web4),
                      udp6 = udp_packet(web6, "hello");
    CHECK(reason({}) == drop::truncated);
    CHECK(reason(changed(udp, 0, 0x55)) == drop::version);
    CHECK(reason(changed(udp, 0, 0x46)) == drop::options);
    CHECK(reason(changed(udp, 3, 34)) == drop::length);
    CHECK(reason(changed(udp, 6, 0x20)) == drop::fragment);     // more fragments
    CHECK(reason(changed(udp, 7, 0x01)) == drop::fragment);     // an offset
    CHECK(reason(changed(udp, 6, 0x80)) == drop::fragment);     // the reserved bit
    CHECK(reason(changed(udp, 8, 1, false)) == drop::bad_sum);  // the header's
    CHECK(reason(changed(udp, 30, 1, false)) == drop::bad_sum); // the datagram's
    CHECK(reason(changed(udp, 15, 3)) == drop::source);         // 192.0.0.3
    CHECK(reason(changed(udp, 9, 132)) == drop::protocol);      // SCTP
    CHECK(reason(changed(udp, 9, 136)) == drop::protocol);      // UDP-Lite
    CHECK(reason(changed(udp, 25, 14)) == drop::length);        // UDP's own
    CHECK(reason(changed(syn, 33, tcp_syn | tcp_ack)) == drop::not_a_syn);
    CHECK(reason(changed(syn, 33, tcp_syn | tcp_rst)) == drop::not_a_syn);
    CHECK(reason(changed(syn, 33, tcp_ack)) == drop::not_a_syn);
    CHECK(reason(changed(syn, 32, 0x40)) == drop::length); // a header shorter than a header
    CHECK(reason(changed(syn, 32, 0x60)) == drop::length); // and one longer than the packet
    byte_vector to_port_0 = udp;
    put16(to_port_0, 22, 0);
    CHECK(reason(to_port_0) == drop::port);
    byte_vector with_header = udp6;
    put8(with_header, 6, 43); // a routing header
    CHECK(reason(with_header) == drop::protocol);
    for (std::size_t size = 0; size < udp6.size(); ++size) {
        const byte_vector cut(udp6.begin(), udp6.begin() + static_cast<std::ptrdiff_t>(size));
        CHECK_FALSE(parse_packet(cut).has_value());
    }
    byte_vector no_sum = udp; // lawful over IPv4 only
    put16(no_sum, 26, 0);
    CHECK(parse_packet(no_sum).has_value());
    byte_vector no_sum6 = udp6;
    put16(no_sum6, 46, 0);
    CHECK(reason(no_sum6) == drop::bad_sum);
}

TEST_CASE("a RST answers the SYN it refuses") {
    for (const endpoint& to : {web4, web6}) {
        const byte_vector bytes = syn_packet(to);
        const packet syn = parse_packet(bytes).value();
        byte_vector space(largest_packet);
        const buffer made = build_reset(space, syn.flow, syn.sequence);
        const std::size_t header = to.is_v4() ? ip4_header : ip6_header;
        CHECK(get16(made, header) == to.port);
        CHECK(get16(made, header + 2) == 4000);
        CHECK(get32(made, header + 4) == 0);
        CHECK(get32(made, header + 8) == 0x12345679);
        CHECK(get8(made, header + 13) == (tcp_rst | tcp_ack));
        checksum sum;
        const std::size_t addresses = to.is_v4() ? 12 : 8;
        sum.add(made.subspan(addresses, header - addresses));
        sum.add32(tcp_header);
        sum.add16(IPPROTO_TCP);
        sum.add(made.subspan(header));
        CHECK(sum.value() == 0);
    }
}

TEST_CASE("ICMP errors carry the code of their meaning and quote what they answer") {
    const struct {
        unreachable why;
        std::uint8_t v4, v6;
    } codes[] = {{unreachable::network, 0, 0},
                 {unreachable::denied, 13, 1},
                 {unreachable::host, 1, 3},
                 {unreachable::port, 3, 4}};
    for (const auto& [why, code4, code6] : codes) {
        for (const endpoint& to : {web4, web6}) {
            const byte_vector bytes = udp_packet(to, std::string(300, 'x'));
            const packet read = parse_packet(bytes).value();
            byte_vector space(largest_packet);
            const std::size_t header = to.is_v4() ? ip4_header : ip6_header;
            const buffer made = build_unreachable(space, read.flow, why, read.whole);
            CHECK(made.size() == header + icmp_header + 120);
            CHECK(get8(made, header) == (to.is_v4() ? 3 : 1));
            CHECK(get8(made, header + 1) == (to.is_v4() ? code4 : code6));
            CHECK(std::ranges::equal(made.subspan(header + icmp_header), read.whole.first(120)));
            const buffer made_up = build_unreachable(space, read.flow, why);
            const auto quoted = made_up.subspan(header + icmp_header);
            CHECK(quoted.size() == header + udp_header);
            CHECK(get16(quoted, header) == 4000);
            CHECK(get16(quoted, header + 2) == to.port);
            CHECK(get16(quoted, header + 4) == udp_header);
        }
    }
}

TEST_CASE("a UDP checksum of 0 is sent as 0xffff") {
    // Two bytes of payload can make any sum: find the ones that would make 0.
    byte_vector space(largest_packet);
    const flow_key flow{.protocol = IPPROTO_UDP, .source = own(true, 4000), .destination = web4};
    const buffer room = payload_room(space, flow);
    put16(room, 0, 0);
    const std::uint16_t missing = get16(build_udp(space, flow, 2), ip4_header + 6);
    put16(room, 0, missing);
    CHECK(get16(build_udp(space, flow, 2), ip4_header + 6) == 0xffff);
}

TEST_CASE("the largest datagram of each family fits") {
    byte_vector space(largest_packet);
    for (const endpoint& to : {web4, web6}) {
        const flow_key flow{.protocol = IPPROTO_UDP, .source = own(to.is_v4(), 4000), .destination = to};
        const std::size_t most = payload_room(space, flow).size();
        const buffer made = build_udp(space, flow, most);
        CHECK(made.size() == (to.is_v4() ? 65535 : 65575));
    }
}

TEST_CASE("an endpoint is unmapped before anything is compared") {
    const auto mapped = endpoint::parse("::ffff:1.2.3.4", 5);
    REQUIRE(mapped.has_value());
    CHECK(mapped->is_v4());
    CHECK(*mapped == endpoint::v4(0x01020304, 5));
    CHECK(endpoint::parse("fe80::1%lo", 53)->scope == 1);
    CHECK_FALSE(endpoint::parse("fe80::1%no-such-link", 53).has_value());
    CHECK_FALSE(endpoint::parse("localhost", 53).has_value());
    CHECK(web6.text() == "[2606:2800:220:1::34]:80");
}

TEST_CASE("the relay never dials itself, in any spelling") {
    const auto rule = [](std::string_view address, std::uint16_t port = 80, int protocol = IPPROTO_TCP) {
        const auto to = endpoint::parse(address, port);
        return to ? never_dialled(protocol, *to) : std::uint32_t{PINFOLD_RULE_NONE};
    };
    for (const char* never :
         {"127.0.0.1", "127.255.0.9", "0.0.0.0", "0.1.2.3", "::1", "::", "::7f00:1", "224.0.0.1", "240.0.0.1",
          "255.255.255.255", "ff02::1", "fe80::1", "192.0.0.1", "192.0.0.2", "192.0.0.7", "fd5e:ca9e:1::1",
          "fd5e:ca9e:1::9", "64:ff9b::127.0.0.1", "64:ff9b::192.0.0.1"}) {
        INFO(never);
        CHECK(rule(never) != PINFOLD_RULE_NONE);
    }
    for (const char* open :
         {"93.184.216.34", "10.0.0.1", "192.168.1.1", "2606:2800:220:1::34", "fd00::1", "64:ff9b::1.1.1.1"}) {
        INFO(open);
        CHECK(rule(open) == PINFOLD_RULE_NONE);
    }
    CHECK(never_dialled(IPPROTO_TCP, endpoint::v6({0, 0, 0xffff, 0x01010101}, 80)) == PINFOLD_RULE_TUNNEL);
    CHECK(rule("93.184.216.34", 7387) == PINFOLD_RULE_AGENT_PORT);
    CHECK(rule("93.184.216.34", 7387, IPPROTO_UDP) == PINFOLD_RULE_NONE);
    CHECK(never_dialled(IPPROTO_TCP, endpoint{}) != PINFOLD_RULE_NONE);
}

} // namespace pinfold
