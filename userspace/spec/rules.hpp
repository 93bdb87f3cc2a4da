// Why something was refused, in words: one text for each pinfold_rule and pinfold_act.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace pinfold {

struct rule_text {
    std::string_view name;   // short and stable, for programs: "private"
    std::string_view reason; // a clause without a full stop: "the address is in a private network"
    std::string_view remedy; // how it can be allowed, a sentence; empty where it cannot
};

// `rule` is enum pinfold_rule. A number that is not known has the name "unknown".
[[nodiscard]] rule_text text_of_rule(std::uint32_t rule) noexcept;
// The enum pinfold_rule of a short name.
[[nodiscard]] std::optional<std::uint32_t> rule_of_name(std::string_view name) noexcept;

// `act` is enum pinfold_act: "connect", "send", "socket", "option", or "unknown".
[[nodiscard]] std::string_view name_of_act(std::uint32_t act) noexcept;
// The same as part of a sentence: "connecting", "sending", …
[[nodiscard]] std::string_view verb_of_act(std::uint32_t act) noexcept;

} // namespace pinfold
