// What the agent gives up at its start: it reads what cages send, so it must be able to do nothing its owner cannot.
#pragma once

#include <cstdint>

namespace pinfold {

// Throws where this process has more rights than its owner: capabilities, or a user that is not the real one. Warns
// where the owner is root.
void check_owner();

// No new privileges, no capabilities (bounding and ambient ones too, where that is allowed), umask 077,
// inherited file descriptors closed.
void lock_down();

// As many open files as the hard limit allows. Returns the limit before, which is what uncaged programs get.
[[nodiscard]] std::uint64_t raise_file_limit();

} // namespace pinfold
