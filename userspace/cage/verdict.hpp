// What the guards of a cage would answer to a destination: asked of the maps that they read, by the rules that they compile.
#pragma once

#include "cage/guards.hpp"

#include <cstdint>

namespace pinfold {

struct guard_question {
    std::uint32_t mode = 0; // enum pinfold_mode
    local_prefix address;   // with its full length; a v4-mapped one is asked for as it is
    bool stream = false;    // a TCP socket
    std::uint16_t port = 0;
};

struct guard_answer {
    std::uint32_t rule = 0;   // enum pinfold_rule, 0 = they let it pass
    local_prefix prefix = {}; // of the tries, where these refused it; family 0 otherwise
};

[[nodiscard]] guard_answer ask_guards(const guards& whose, const guard_question& question);
// The mode, as the guards know it.
[[nodiscard]] std::uint32_t policy_mode(cage_mode mode) noexcept;

} // namespace pinfold
