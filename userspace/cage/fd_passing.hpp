// Handing file descriptors over a Unix socket, for the keeper and for a child that must not allocate.
#pragma once

#include <cstddef>
#include <span>

namespace pinfold {

inline constexpr std::size_t most_passed_fds = 96;

// One byte with these fds beside it (SCM_RIGHTS). As sendmsg(2): negative with errno set, EINVAL for more than
// most_passed_fds. Allocates nothing.
long send_fds(int socket, std::span<const int> fds) noexcept;

} // namespace pinfold
