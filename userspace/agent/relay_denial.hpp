// A refusal of the relay, in the form in which the guards tell theirs.
#pragma once

#include "agent/relay/relay.hpp"

#include <pinfold/denial.h>

namespace pinfold {

// Now, and of no process: a packet does not say who sent it.
[[nodiscard]] pinfold_denial denial_of(const relay_refusal& from);

} // namespace pinfold
