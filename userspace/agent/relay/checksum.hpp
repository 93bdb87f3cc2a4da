// The Internet checksum (RFC 1071) over pieces, as IP, TCP, UDP and ICMP use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace pinfold {

class checksum {
public:
    // Every piece but the last has an even length.
    void add(std::span<const std::byte> piece) noexcept;
    void add16(std::uint16_t host_order) noexcept;
    void add32(std::uint32_t host_order) noexcept;

    // Host byte order. Over data that holds its own right checksum it is 0.
    [[nodiscard]] std::uint16_t value() const noexcept;

private:
    std::uint64_t sum_ = 0; // of 16-bit words in the machine's byte order: the sum commutes with the swap
};

} // namespace pinfold
