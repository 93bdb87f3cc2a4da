// What the API shows of a cage, a denial, a program's end.
#pragma once

#include "agent/cages.hpp"

#include <nlohmann/json_fwd.hpp>

namespace pinfold {

[[nodiscard]] nlohmann::json to_json(const limits_spec& limits);
[[nodiscard]] nlohmann::json denied_summary(const denial_log& from,
                                            std::uint64_t cage); // a few of a cage's, with how often
[[nodiscard]] nlohmann::json to_json(const denial_entry& entry);
// `own` is what this agent knows of it beside the keeper's words; may be null.
[[nodiscard]] nlohmann::json to_json(const wire::cage_state& state, const cage_record* own);
[[nodiscard]] nlohmann::json to_json(const cage_record& known); // uncaged, or while the keeper is gone
[[nodiscard]] nlohmann::json to_json(const relay_figures& figures);

[[nodiscard]] std::string to_rfc3339(std::uint64_t unix_seconds);

} // namespace pinfold
