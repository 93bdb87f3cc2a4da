// The system calls a cage may make: an allow-list, compiled once by libseccomp, installed by the child itself.
#pragma once

#include <cstdint>
#include <linux/filter.h>
#include <vector>

namespace pinfold {

enum class cage_mode : std::uint8_t;

// The filter as the kernel takes it (seccomp(2), SECCOMP_SET_MODE_FILTER).
// Anything not on the list answers ENOSYS, so that newer libraries fall back. Sealed: clone and unshare only without
// CLONE_NEWUSER, and clone3 answers ENOSYS, since a filter cannot see its flags. Throws std::system_error.
[[nodiscard]] std::vector<sock_filter> compile_filter(cage_mode mode);

} // namespace pinfold
