// Whether a spec can be meant at all. The agent asks before it sends one, the keeper again before it believes it.
#pragma once

#include "spec/cage_spec.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace pinfold {

// Where it is wrong and what it must be ("limits.processes", "must be at least 4").
struct spec_problem {
    std::string where;
    std::string what;
};

[[nodiscard]] bool is_name(std::string_view text) noexcept; // 1 to 64 of [a-z0-9._-], first a letter or digit
[[nodiscard]] std::optional<spec_problem> find_problem(const limits_spec& limits);
[[nodiscard]] std::optional<spec_problem> find_problem(const command_spec& command);
[[nodiscard]] std::optional<spec_problem> find_problem(const cage_spec& spec);

} // namespace pinfold
