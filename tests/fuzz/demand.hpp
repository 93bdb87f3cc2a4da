// What must hold of every input: a harness that could not fail would find nothing.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

namespace pinfold::fuzz {

inline void demand(bool holds) {
    if (!holds) std::abort();
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
    return {reinterpret_cast<const char*>(data), size};
}

inline std::span<const std::byte> bytes_of(const std::uint8_t* data, std::size_t size) {
    return std::as_bytes(std::span(data, size));
}

} // namespace pinfold::fuzz
