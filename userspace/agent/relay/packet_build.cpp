#include "agent/relay/checksum.hpp"
#include "agent/relay/packet.hpp"
#include "agent/relay/packet_headers.hpp"

#include <algorithm>
#include <netinet/in.h>

namespace pinfold {

namespace {

constexpr std::uint8_t time_to_live = 64;
constexpr std::size_t most_quoted = 120;
constexpr std::size_t udp_sum_at = 6, tcp_sum_at = 16, icmp_sum_at = 2;

std::size_t ip_header_of(const flow_key& flow) {
    return flow.source.is_v4() ? ip4_header : ip6_header;
}

std::uint8_t icmp_of(const flow_key& flow) {
    return icmp_protocol(flow.source.is_v4());
}

void put_address(buffer to, std::size_t at, const endpoint& end) {
    std::memcpy(to.subspan(at, end.address_size()).data(), end.address.data(), end.address_size());
}

void put_ip4(buffer whole, std::uint8_t protocol, const endpoint& from, const endpoint& to) {
    std::ranges::fill(whole.first(ip4_header), std::byte{0});
    put8(whole, 0, 0x45);
    put16(whole, 2, static_cast<std::uint16_t>(whole.size()));
    put16(whole, 6, 0x4000); // don't fragment: then an identification of 0 is lawful
    put8(whole, 8, time_to_live);
    put8(whole, 9, protocol);
    put_address(whole, 12, from);
    put_address(whole, 16, to);
    checksum sum;
    sum.add(whole.first(ip4_header));
    put16(whole, 10, sum.value());
}

void put_ip6(buffer whole, std::uint8_t protocol, const endpoint& from, const endpoint& to) {
    put32(whole, 0, 0x60000000);
    put16(whole, 4, static_cast<std::uint16_t>(whole.size() - ip6_header));
    put8(whole, 6, protocol);
    put8(whole, 7, time_to_live);
    put_address(whole, 8, from);
    put_address(whole, 24, to);
}

void put_ip(buffer whole, std::uint8_t protocol, const endpoint& from, const endpoint& to) {
    from.is_v4() ? put_ip4(whole, protocol, from, to) : put_ip6(whole, protocol, from, to);
}

// The header's checksum field is `at` within the transport part and holds 0.
void put_sum(buffer transport, std::size_t at, std::uint8_t protocol, const endpoint& from,
             const endpoint& to) {
    checksum sum;
    if (protocol != IPPROTO_ICMP) {
        for (const endpoint* end : {&from, &to})
            sum.add(std::as_bytes(std::span(end->address)).first(end->address_size()));
        sum.add32(static_cast<std::uint32_t>(transport.size()));
        sum.add16(protocol);
    }
    sum.add(transport);
    const std::uint16_t value = sum.value();
    // 0 would mean "none" to UDP; 0xffff is the same number.
    put16(transport, at, value == 0 && protocol == IPPROTO_UDP ? std::uint16_t{0xffff} : value);
}

// A packet of the flow, from its destination to its source; the transport part is filled by the caller.
buffer begin(buffer to, const flow_key& flow, std::uint8_t protocol, std::size_t transport_size) {
    const buffer whole = to.first(ip_header_of(flow) + transport_size);
    put_ip(whole, protocol, flow.destination, flow.source);
    return whole;
}

struct icmp_code {
    std::uint8_t v4, v6;
};

icmp_code code_of(unreachable why) {
    switch (why) {
    case unreachable::network: return {0, 0};
    case unreachable::denied: return {13, 1};
    case unreachable::port: return {3, 4};
    case unreachable::host: break;
    }
    return {1, 3};
}

} // namespace

buffer build_reset(buffer to, const flow_key& flow, std::uint32_t syn_sequence) {
    const buffer whole = begin(to, flow, IPPROTO_TCP, tcp_header);
    const buffer segment = whole.subspan(ip_header_of(flow));
    std::ranges::fill(segment, std::byte{0});
    put16(segment, 0, flow.destination.port);
    put16(segment, 2, flow.source.port);
    put32(segment, 8, syn_sequence + 1);
    put8(segment, 12, 5 << 4);
    put8(segment, 13, tcp_rst | tcp_ack);
    put_sum(segment, tcp_sum_at, IPPROTO_TCP, flow.destination, flow.source);
    return whole;
}

buffer build_unreachable(buffer to, const flow_key& flow, unreachable why,
                         std::span<const std::byte> quoted) {
    quoted = quoted.first(std::min(quoted.size(), most_quoted));
    const buffer whole = begin(to, flow, icmp_of(flow), icmp_header + quoted.size());
    const buffer message = whole.subspan(ip_header_of(flow));
    std::ranges::fill(message.first(icmp_header), std::byte{0});
    const bool v4 = flow.source.is_v4();
    put8(message, 0, v4 ? unreachable4 : unreachable6);
    put8(message, 1, v4 ? code_of(why).v4 : code_of(why).v6);
    std::ranges::copy(quoted, message.subspan(icmp_header).begin());
    put_sum(message, icmp_sum_at, icmp_of(flow), flow.destination, flow.source);
    return whole;
}

buffer build_unreachable(buffer to, const flow_key& flow, unreachable why) {
    std::array<std::byte, ip6_header + udp_header> space{};
    const buffer quoted = buffer(space).first(ip_header_of(flow) + udp_header);
    put_ip(quoted, flow.protocol, flow.source, flow.destination);
    const buffer transport = quoted.subspan(ip_header_of(flow));
    if (flow.protocol == IPPROTO_UDP) {
        put16(transport, 0, flow.source.port);
        put16(transport, 2, flow.destination.port);
        put16(transport, 4, udp_header);
    } else {
        put8(transport, 0, flow.source.is_v4() ? echo_request4 : echo_request6);
        put16(transport, 4, flow.source.port);
    }
    return build_unreachable(to, flow, why, quoted);
}

buffer payload_room(buffer to, const flow_key& flow) {
    static_assert(udp_header == icmp_header);
    // Both length fields end at 65,535: IPv4's counts its own header too.
    const std::size_t most = flow.source.is_v4() ? 65535 - ip4_header - udp_header : 65535 - udp_header;
    return to.subspan(ip_header_of(flow) + udp_header, most);
}

buffer build_udp(buffer to, const flow_key& flow, std::size_t payload_size) {
    const buffer whole = begin(to, flow, IPPROTO_UDP, udp_header + payload_size);
    const buffer datagram = whole.subspan(ip_header_of(flow));
    put16(datagram, 0, flow.destination.port);
    put16(datagram, 2, flow.source.port);
    put16(datagram, 4, static_cast<std::uint16_t>(datagram.size()));
    put16(datagram, udp_sum_at, 0);
    put_sum(datagram, udp_sum_at, IPPROTO_UDP, flow.destination, flow.source);
    return whole;
}

buffer build_echo_reply(buffer to, const flow_key& flow, std::uint16_t sequence, std::size_t payload_size) {
    const buffer whole = begin(to, flow, icmp_of(flow), icmp_header + payload_size);
    const buffer message = whole.subspan(ip_header_of(flow));
    put8(message, 0, flow.source.is_v4() ? echo_reply4 : echo_reply6);
    put8(message, 1, 0);
    put16(message, icmp_sum_at, 0);
    put16(message, 4, flow.source.port);
    put16(message, 6, sequence);
    put_sum(message, icmp_sum_at, icmp_of(flow), flow.destination, flow.source);
    return whole;
}

buffer build_echo_request(buffer to, const packet& echo) {
    const buffer message = to.first(icmp_header + echo.payload.size());
    std::ranges::fill(message.first(icmp_header), std::byte{0});
    put8(message, 0, echo.flow.source.is_v4() ? echo_request4 : echo_request6);
    put16(message, 6, static_cast<std::uint16_t>(echo.sequence));
    std::ranges::copy(echo.payload, message.subspan(icmp_header).begin());
    return message;
}

} // namespace pinfold
