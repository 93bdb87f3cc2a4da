#include "agent/relay/checksum.hpp"

#include <arpa/inet.h>
#include <cstring>

namespace pinfold {

namespace {

template <typename Word>
Word load(const std::byte* from) noexcept {
    Word word = 0;
    std::memcpy(&word, from, sizeof word);
    return word;
}

} // namespace

void checksum::add(std::span<const std::byte> piece) noexcept {
    // 65,535 bytes are 16,384 words of 32 bits: no sum of them overflows 64 bits.
    while (piece.size() >= sizeof(std::uint32_t)) {
        sum_ += load<std::uint32_t>(piece.data());
        piece = piece.subspan(sizeof(std::uint32_t));
    }
    if (piece.size() >= sizeof(std::uint16_t)) {
        sum_ += load<std::uint16_t>(piece.data());
        piece = piece.subspan(sizeof(std::uint16_t));
    }
    if (!piece.empty()) sum_ += htons(static_cast<std::uint16_t>(std::to_integer<unsigned>(piece[0]) << 8));
}

void checksum::add16(std::uint16_t host_order) noexcept {
    sum_ += htons(host_order);
}

void checksum::add32(std::uint32_t host_order) noexcept {
    sum_ += htonl(host_order);
}

std::uint16_t checksum::value() const noexcept {
    std::uint64_t folded = sum_;
    while ((folded >> 16) != 0) folded = (folded & 0xffff) + (folded >> 16);
    return ntohs(static_cast<std::uint16_t>(~folded));
}

} // namespace pinfold
