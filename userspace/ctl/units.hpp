// Amounts as people write and read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pinfold::ctl {

// "512m", "4g", "1.5GiB", "1048576": bytes, in powers of 1024. Nothing where it is no amount.
[[nodiscard]] std::optional<std::uint64_t> parse_bytes(std::string_view text);
// "1.5": a number of CPUs greater than zero.
[[nodiscard]] std::optional<double> parse_cpus(std::string_view text);
[[nodiscard]] std::optional<std::uint32_t> parse_count(std::string_view text);

[[nodiscard]] std::string format_bytes(std::uint64_t bytes); // "512 MiB"

// Without control characters: what a cage names its processes must not steer the owner's terminal.
[[nodiscard]] std::string printable(std::string_view text);

} // namespace pinfold::ctl
