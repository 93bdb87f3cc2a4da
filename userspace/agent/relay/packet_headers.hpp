// Big-endian fields, and the numbers that reading and building packets share.
#pragma once

#include <arpa/inet.h>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace pinfold {

inline constexpr std::size_t ip4_header = 20, ip6_header = 40, tcp_header = 20, udp_header = 8,
                             icmp_header = 8;

inline constexpr std::uint8_t tcp_fin = 0x01, tcp_syn = 0x02, tcp_rst = 0x04, tcp_ack = 0x10;
inline constexpr std::uint8_t echo_reply4 = 0, unreachable4 = 3, echo_request4 = 8;
inline constexpr std::uint8_t unreachable6 = 1, echo_request6 = 128, echo_reply6 = 129;

inline std::uint8_t icmp_protocol(bool v4) {
    return v4 ? 1 : 58;
}

// `at` + the field's size is within `in`: the callers check lengths once, before they read.
inline std::uint8_t get8(std::span<const std::byte> in, std::size_t at) {
    return std::to_integer<std::uint8_t>(in[at]);
}
inline std::uint16_t get16(std::span<const std::byte> in, std::size_t at) {
    std::uint16_t field = 0;
    std::memcpy(&field, in.subspan(at, sizeof field).data(), sizeof field);
    return ntohs(field);
}
inline std::uint32_t get32(std::span<const std::byte> in, std::size_t at) {
    std::uint32_t field = 0;
    std::memcpy(&field, in.subspan(at, sizeof field).data(), sizeof field);
    return ntohl(field);
}
inline void put8(std::span<std::byte> to, std::size_t at, std::uint8_t value) {
    to[at] = std::byte{value};
}
inline void put16(std::span<std::byte> to, std::size_t at, std::uint16_t value) {
    const std::uint16_t field = htons(value);
    std::memcpy(to.subspan(at, sizeof field).data(), &field, sizeof field);
}
inline void put32(std::span<std::byte> to, std::size_t at, std::uint32_t value) {
    const std::uint32_t field = htonl(value);
    std::memcpy(to.subspan(at, sizeof field).data(), &field, sizeof field);
}

} // namespace pinfold
