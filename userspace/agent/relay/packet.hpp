// Bare IP packets from and to a cage's tun: strict to read, bounded to build, no state and no system call.
#pragma once

#include "agent/relay/endpoint.hpp"

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>

namespace pinfold {

inline constexpr std::size_t largest_packet = 65535 + 40; // what IPv6's length field can say
inline constexpr std::size_t largest_held_syn = 1500;     // a fast-open client may put data into its SYN

enum class packet_kind : std::uint8_t { syn, udp, echo };

// What was read from a tun. The spans point into the packet.
struct packet {
    packet_kind kind{};
    flow_key flow;                      // of an echo: source.port is the identifier, destination.port is 0
    std::uint32_t sequence = 0;         // of a SYN and of an echo
    std::span<const std::byte> payload; // UDP: the datagram; echo: what follows its 8-byte header
    std::span<const std::byte> whole;
};

// Why a packet was not taken. Everything that comes out of a cage may be made by hand there.
enum class drop : std::uint8_t {
    truncated, // shorter than its headers
    version,   // neither 4 nor 6
    length,    // a length field that does not match
    fragment,  // of IPv4
    options,   // IPv4 options, IPv6 extension headers
    bad_sum,   // a wrong checksum
    source,    // not the cage's own address
    protocol,  // neither TCP nor UDP nor an echo request
    not_a_syn, // TCP, but not the opening of a connection
    port,      // 0
};

[[nodiscard]] const char* to_string(drop reason) noexcept;
[[nodiscard]] std::expected<packet, drop> parse_packet(std::span<const std::byte> bytes);

// ICMP "destination unreachable", by what the application is to see.
enum class unreachable : std::uint8_t {
    network, // ENETUNREACH
    denied,  // EHOSTUNREACH over IPv4, EACCES over IPv6 (the kernel's translation)
    host,    // EHOSTUNREACH
    port,    // ECONNREFUSED; for UDP
};

// All build into `to`, which holds largest_packet bytes, and return the packet within it. A flow's packets go from its
// destination to its source.
using buffer = std::span<std::byte>;
[[nodiscard]] buffer build_reset(buffer to, const flow_key& flow, std::uint32_t syn_sequence);
// Quotes at most 120 bytes of the packet it answers.
[[nodiscard]] buffer build_unreachable(buffer to, const flow_key& flow, unreachable why,
                                       std::span<const std::byte> quoted);
// The same for a UDP or echo flow whose packet is gone: quotes a made-up header of the flow.
[[nodiscard]] buffer build_unreachable(buffer to, const flow_key& flow, unreachable why);

// The payload is put into payload_room() first, so that a datagram is copied once, by the kernel.
[[nodiscard]] buffer payload_room(buffer to, const flow_key& flow);
[[nodiscard]] buffer build_udp(buffer to, const flow_key& flow, std::size_t payload_size);
// For an echo flow; the payload is what follows the 8-byte header.
[[nodiscard]] buffer build_echo_reply(buffer to, const flow_key& flow, std::uint16_t sequence,
                                      std::size_t payload_size);
// Builds the request that goes to the ping socket; the kernel writes its own identifier and checksum.
[[nodiscard]] buffer build_echo_request(buffer to, const packet& echo);

} // namespace pinfold
