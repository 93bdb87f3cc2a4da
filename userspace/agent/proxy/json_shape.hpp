// Whether hostile JSON may be built into memory: by a pass that builds nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pinfold {

// What is wrong with it; nothing = JSON of modest depth and number of values (an array of 16 MiB of "[" would take a
// gigabyte), and no object has a key twice (which means one thing to this parser and another to the next).
[[nodiscard]] std::optional<std::string> judge_json_shape(std::string_view text);

} // namespace pinfold
