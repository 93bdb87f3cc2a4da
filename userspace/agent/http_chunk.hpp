// The chunked coding of HTTP/1.1 (RFC 9112, 7.1), for answers whose length nobody knows yet.
#pragma once

#include <fmt/format.h>
#include <string>
#include <string_view>

namespace pinfold {

// An empty one ends the body.
[[nodiscard]] inline std::string http_chunk(std::string_view bytes) {
    return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}

} // namespace pinfold
