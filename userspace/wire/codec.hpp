// Messages to bytes and back. Bounded, strict, and the same description serves both ways; the decoder is fuzzed.
#pragma once

#include "base/error.hpp"
#include "wire/messages.hpp"

#include <cstddef>
#include <expected>
#include <span>
#include <vector>

namespace pinfold::wire {

// Throws failure where the message is longer than largest_message.
[[nodiscard]] std::vector<std::byte> encode(const message& from);

// Every count and length is checked before anything is allocated; trailing bytes are an error. The fds are not part
// of the bytes.
[[nodiscard]] std::expected<message, problem> decode(std::span<const std::byte> bytes);

} // namespace pinfold::wire
