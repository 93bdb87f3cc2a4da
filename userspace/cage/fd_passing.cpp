#include "cage/fd_passing.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>

namespace pinfold {

long send_fds(int socket, std::span<const int> fds) noexcept {
    if (fds.size() > most_passed_fds) {
        errno = EINVAL;
        return -1;
    }
    char byte = 0;
    iovec part{.iov_base = &byte, .iov_len = 1};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * most_passed_fds)> control{};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* first = CMSG_FIRSTHDR(&header);
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SCM_RIGHTS;
    first->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(first), fds.data(), fds.size_bytes());
    return ::sendmsg(socket, &header, MSG_NOSIGNAL);
}

} // namespace pinfold
