#include "agent/api_socket.hpp"

#include "base/error.hpp"

#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

namespace pinfold {

namespace {

constexpr int backlog = 64;

bool exists_as_directory(const std::filesystem::path& path) {
    std::error_code ignored;
    return std::filesystem::is_directory(path, ignored);
}

// In /tmp anybody may have made it first: it must be ours, closed to others, and no link.
void make_private_directory(const std::filesystem::path& path) {
    const std::filesystem::path parent = path.parent_path();
    if (!parent.empty() && !exists_as_directory(parent)) make_private_directory(parent);
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
        fail_errno(errno, "make the directory {}", path.native());
}

void check_private(const std::filesystem::path& path) {
    struct stat found{};
    check(::lstat(path.c_str(), &found), "look at the directory {}", path.native());
    if (!S_ISDIR(found.st_mode))
        fail("the API socket needs a directory at {}: remove what is there", path.native());
    if (found.st_uid != ::geteuid())
        fail("the directory {} belongs to user {}, not to you: choose another socket with --api",
             path.native(), found.st_uid);
    if ((found.st_mode & 077) != 0)
        fail("the directory {} is open to other users: 'chmod 700 {}', or choose another socket with --api",
             path.native(), path.native());
}

unique_fd lock(const std::filesystem::path& socket) {
    const std::string path = socket.native() + ".lock";
    unique_fd file(check(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600),
                         "open the lock {}", path));
    if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) return file;
    if (errno == EWOULDBLOCK)
        fail("another pinfold-agent already listens at {}: use that one, or choose another socket with --api",
             socket.native());
    fail_errno(errno, "lock {}", path);
}

} // namespace

api_socket::api_socket(std::filesystem::path path, unique_fd lock, unique_fd socket)
    : path_(std::move(path)), lock_(std::move(lock)), socket_(std::move(socket)) {}

api_socket api_socket::listen(const std::filesystem::path& path, const std::function<void()>& prepare) {
    sockaddr_un address{.sun_family = AF_UNIX};
    if (path.native().size() >= sizeof address.sun_path)
        fail(
            "listen at {}: the path has {} bytes, and that of a socket at most {}; choose a shorter one with "
            "--api",
            path.native(), path.native().size(), sizeof address.sun_path - 1);
    std::memcpy(address.sun_path, path.c_str(), path.native().size());
    make_private_directory(path.parent_path());
    check_private(path.parent_path());
    unique_fd held = lock(path);
    if (prepare) prepare();
    // Only whoever holds the lock gets here, so a socket that is left belongs to nobody.
    struct stat found{};
    if (::lstat(path.c_str(), &found) == 0) {
        if (!S_ISSOCK(found.st_mode))
            fail("listen at {}: something that is no socket is there", path.native());
        check(::unlink(path.c_str()), "remove the socket that a dead agent left at {}", path.native());
    }
    unique_fd socket(check(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), "make the API socket"));
    check(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), "listen at {}",
          path.native());
    check(::chmod(path.c_str(), 0600), "close {} to other users", path.native());
    check(::listen(socket.get(), backlog), "listen at {}", path.native());
    return {path, std::move(held), std::move(socket)};
}

api_socket::~api_socket() {
    if (socket_)
        ::unlink(path_.c_str()); // the lock file stays: removing it would let two agents hold "the" lock
}

bool is_owner(int connection) {
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
    return peer.uid == ::geteuid() || peer.uid == 0;
}

} // namespace pinfold
