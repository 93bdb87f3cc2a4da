#include "agent/relay/packet.hpp"

#include "agent/relay/checksum.hpp"
#include "agent/relay/packet_headers.hpp"
#include "pinfold/network.h"

#include <netinet/in.h>

namespace pinfold {

namespace {

using bytes = std::span<const std::byte>;

struct ip_part {
    flow_key flow;
    bytes transport;
};

endpoint address4(bytes from) {
    return endpoint::v4(get32(from, 0), 0);
}

endpoint address6(bytes from) {
    return endpoint::v6({get32(from, 0), get32(from, 4), get32(from, 8), get32(from, 12)}, 0);
}

bool is_own(const endpoint& source) {
    constexpr std::array<std::uint32_t, 4> own6 = PINFOLD_OWN6_WORDS;
    return source.is_v4() ? source.v4() == PINFOLD_OWN4 : source.words() == own6;
}

std::expected<ip_part, drop> read_ip4(bytes whole) {
    if (whole.size() < ip4_header) return std::unexpected(drop::truncated);
    if (get8(whole, 0) != 0x45) return std::unexpected(drop::options);
    if (get16(whole, 2) != whole.size()) return std::unexpected(drop::length);
    constexpr std::uint16_t dont_fragment = 0x4000; // the only bit of this field a whole packet may have
    if ((get16(whole, 6) & ~dont_fragment) != 0) return std::unexpected(drop::fragment);
    checksum sum;
    sum.add(whole.first(ip4_header));
    if (sum.value() != 0) return std::unexpected(drop::bad_sum);
    ip_part part{.flow = {.protocol = get8(whole, 9)}, .transport = whole.subspan(ip4_header)};
    part.flow.source = address4(whole.subspan(12));
    part.flow.destination = address4(whole.subspan(16));
    return part;
}

std::expected<ip_part, drop> read_ip6(bytes whole) {
    if (whole.size() < ip6_header) return std::unexpected(drop::truncated);
    if (get16(whole, 4) != whole.size() - ip6_header) return std::unexpected(drop::length);
    ip_part part{.flow = {.protocol = get8(whole, 6)}, .transport = whole.subspan(ip6_header)};
    part.flow.source = address6(whole.subspan(8));
    part.flow.destination = address6(whole.subspan(24));
    return part;
}

bool sum_is_right(const ip_part& part) {
    checksum sum;
    const bool icmp4 = part.flow.protocol == IPPROTO_ICMP;
    if (!icmp4) {
        for (const endpoint* end : {&part.flow.source, &part.flow.destination})
            sum.add(std::as_bytes(std::span(end->address)).first(end->address_size()));
        sum.add32(static_cast<std::uint32_t>(part.transport.size()));
        sum.add16(part.flow.protocol);
    }
    sum.add(part.transport);
    return sum.value() == 0;
}

std::expected<packet, drop> read_tcp(const ip_part& part, packet made) {
    const bytes segment = part.transport;
    if (segment.size() < tcp_header) return std::unexpected(drop::truncated);
    const std::size_t header = std::size_t{4} * (get8(segment, 12) >> 4);
    if (header < tcp_header || header > segment.size()) return std::unexpected(drop::length);
    if ((get8(segment, 13) & (tcp_syn | tcp_ack | tcp_rst | tcp_fin)) != tcp_syn)
        return std::unexpected(drop::not_a_syn);
    if (made.whole.size() > largest_held_syn) return std::unexpected(drop::length);
    made.kind = packet_kind::syn;
    made.sequence = get32(segment, 4);
    return made;
}

std::expected<packet, drop> read_udp(const ip_part& part, packet made) {
    const bytes datagram = part.transport;
    if (datagram.size() < udp_header) return std::unexpected(drop::truncated);
    if (get16(datagram, 4) != datagram.size()) return std::unexpected(drop::length);
    made.kind = packet_kind::udp;
    made.payload = datagram.subspan(udp_header);
    return made;
}

std::expected<packet, drop> read_echo(const ip_part& part, packet made) {
    const bytes message = part.transport;
    if (message.size() < icmp_header) return std::unexpected(drop::truncated);
    const std::uint8_t request = part.flow.source.is_v4() ? echo_request4 : echo_request6;
    if (get8(message, 0) != request || get8(message, 1) != 0) return std::unexpected(drop::protocol);
    made.kind = packet_kind::echo;
    made.flow.source.port = get16(message, 4);
    made.sequence = get16(message, 6);
    made.payload = message.subspan(icmp_header);
    return made;
}

std::expected<packet, drop> read_transport(ip_part& part, packet made) {
    const bool v4 = part.flow.source.is_v4();
    if (part.flow.protocol == icmp_protocol(v4)) return read_echo(part, made);
    if (part.flow.protocol != IPPROTO_TCP && part.flow.protocol != IPPROTO_UDP)
        return std::unexpected(drop::protocol);
    if (part.transport.size() < udp_header) return std::unexpected(drop::truncated);
    made.flow.source.port = get16(part.transport, 0);
    made.flow.destination.port = get16(part.transport, 2);
    if (made.flow.source.port == 0 || made.flow.destination.port == 0) return std::unexpected(drop::port);
    return part.flow.protocol == IPPROTO_TCP ? read_tcp(part, made) : read_udp(part, made);
}

bool has_no_sum(const packet& made, const ip_part& part) {
    return made.kind == packet_kind::udp && made.flow.source.is_v4() && get16(part.transport, 6) == 0;
}

} // namespace

const char* to_string(drop reason) noexcept {
    switch (reason) {
    case drop::truncated: return "shorter than its headers";
    case drop::version: return "neither IPv4 nor IPv6";
    case drop::length: return "a length that does not match";
    case drop::fragment: return "a fragment";
    case drop::options: return "IP options or extension headers";
    case drop::bad_sum: return "a wrong checksum";
    case drop::source: return "not from the cage's own address";
    case drop::protocol: return "neither TCP nor UDP nor an echo request";
    case drop::not_a_syn: return "TCP, but not an opening SYN";
    case drop::port: return "port 0";
    }
    return "unknown";
}

std::expected<packet, drop> parse_packet(bytes whole) {
    if (whole.empty()) return std::unexpected(drop::truncated);
    const unsigned version = get8(whole, 0) >> 4;
    if (version != 4 && version != 6) return std::unexpected(drop::version);
    std::expected<ip_part, drop> part = version == 4 ? read_ip4(whole) : read_ip6(whole);
    if (!part) return std::unexpected(part.error());
    if (!is_own(part->flow.source)) return std::unexpected(drop::source);
    std::expected<packet, drop> made = read_transport(*part, packet{.flow = part->flow, .whole = whole});
    if (made && !has_no_sum(*made, *part) && !sum_is_right(*part)) return std::unexpected(drop::bad_sum);
    return made;
}

} // namespace pinfold
