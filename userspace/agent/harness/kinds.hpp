// The three kinds, one function for each, so that the list and each kind can stand in files of their own.
#pragma once

#include "agent/harness/harness.hpp"

namespace pinfold::harness {

[[nodiscard]] const kind& claude();
[[nodiscard]] const kind& pi();
[[nodiscard]] const kind& command();

// What the harness is told of where it is, behind its own system prompt.
[[nodiscard]] std::string note_of(const start& how);

} // namespace pinfold::harness
