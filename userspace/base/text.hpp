// Small questions about ASCII text that several parsers ask, without a locale.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace pinfold {

[[nodiscard]] inline std::string lowered(std::string_view text) {
    std::string made(text);
    std::ranges::transform(made, made.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    return made;
}

// Of either case; -1 = it is none.
[[nodiscard]] constexpr int hex_digit(char c) noexcept {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

// For one segment of a path, or one value of a query (RFC 3986: unreserved characters and ':' stay).
[[nodiscard]] inline std::string percent_encoded(std::string_view text) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    std::string made;
    made.reserve(text.size());
    for (const char c : text) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                           std::string_view("-._~:").find(c) != std::string_view::npos;
        const auto byte = static_cast<unsigned char>(c);
        if (plain)
            made += c;
        else
            made += {'%', digits[byte >> 4U], digits[byte & 15U]};
    }
    return made;
}

} // namespace pinfold
