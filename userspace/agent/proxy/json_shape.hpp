// Whether hostile JSON may be built into memory, and building it: in one pass that stops at the first thing that is wrong.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace pinfold {

inline constexpr std::size_t deepest_json = 64, most_json_values = 200'000;

// What is wrong with it; nothing = JSON of modest depth and number of values (an array of 16 MiB of "[" would take a
// gigabyte), and no object has a key twice (which means one thing to this parser and another to the next).
[[nodiscard]] std::optional<std::string> judge_json_shape(std::string_view text);
// The same, and the value; where something is wrong `into` holds nothing to be used.
[[nodiscard]] std::optional<std::string> read_json_strictly(std::string_view text, nlohmann::json& into);

} // namespace pinfold
