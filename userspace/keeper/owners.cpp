#include "keeper/owners.hpp"

#include "base/error.hpp"

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <grp.h>
#include <linux/openat2.h>
#include <memory>
#include <optional>
#include <pwd.h>
#include <spdlog/spdlog.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

namespace pinfold {

namespace {

// File access as the owner: with a file system uid other than 0 the kernel also takes CAP_DAC_* away.
class owner_visit {
public:
    explicit owner_visit(const owner& who) {
        check(::setgroups(who.groups.size(), who.groups.data()), "take the groups of uid {}", who.uid);
        ::setfsgid(who.gid);
        ::setfsuid(who.uid);
        // setfsuid never fails aloud: ask what it is now.
        if (static_cast<uid_t>(::setfsuid(static_cast<uid_t>(-1))) != who.uid) std::abort();
    }
    owner_visit(const owner_visit&) = delete;
    owner_visit& operator=(const owner_visit&) = delete;
    ~owner_visit() {
        ::setfsuid(0);
        ::setfsgid(0);
        if (::setgroups(0, nullptr) != 0 || ::setfsuid(static_cast<uid_t>(-1)) != 0) std::abort();
    }
};

unique_fd open_path(const std::filesystem::path& path, std::uint64_t more) {
    open_how how{};
    how.flags = O_PATH | O_CLOEXEC | more;
    how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    return unique_fd(static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how)));
}

// From /etc/passwd itself: the keeper asks no directory service, since that would be a network.
std::optional<std::string> home_of(uid_t uid) {
    const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/etc/passwd", "re"), &std::fclose);
    if (!file) return std::nullopt;
    while (const passwd* entry = ::fgetpwent(file.get())) {
        if (entry->pw_uid == uid) return entry->pw_dir;
    }
    return std::nullopt;
}

// A place of credentials is none either, nor is anything in it; below .claude lie worktrees, and those are projects.
std::string credentials_on_the_way(const std::filesystem::path& path) {
    std::string last;
    for (const std::filesystem::path& part : path) {
        if (part == ".ssh" || part == ".gnupg" || part == ".aws") return part;
        if (part == "gh" && last == ".config") return ".config/gh";
        if (!part.empty()) last = part;
    }
    return last == ".claude" ? last : "";
}

bool same_file(const struct stat& one, const struct stat& other) {
    return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

// Whether `directory` is `home` or above it, by device and inode: another spelling of a path changes nothing.
bool holds_home(int directory, const std::string& home) {
    struct stat project{};
    check(::fstat(directory, &project), "look at the project");
    unique_fd at(::open(home.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    while (at) {
        struct stat here{};
        check(::fstat(at.get(), &here), "look above {}", home);
        if (same_file(here, project)) return true;
        unique_fd above(
            check(::openat(at.get(), "..", O_PATH | O_DIRECTORY | O_CLOEXEC), "look above {}", home));
        struct stat next{};
        check(::fstat(above.get(), &next), "look above {}", home);
        if (same_file(next, here)) return false;
        at = std::move(above);
    }
    return false;
}

} // namespace

std::string home_directory(uid_t uid) {
    return home_of(uid).value_or("");
}

owner owner_of(int connection) {
    ucred peer{};
    socklen_t size = sizeof peer;
    check(::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size), "ask who is connected");
    owner who{.uid = peer.uid, .gid = peer.gid};
    who.groups.resize(64);
    for (;;) {
        size = static_cast<socklen_t>(who.groups.size() * sizeof(gid_t));
        if (::getsockopt(connection, SOL_SOCKET, SO_PEERGROUPS, who.groups.data(), &size) == 0) break;
        if (errno != ERANGE) fail_errno(errno, "ask for the groups of uid {}", who.uid);
        who.groups.resize(size / sizeof(gid_t));
    }
    who.groups.resize(size / sizeof(gid_t));
    return who;
}

unique_fd open_as(const owner& who, const std::filesystem::path& path) {
    unique_fd found;
    int error = 0;
    {
        const owner_visit visit(who);
        found = open_path(path, 0);
        error = errno;
    }
    if (found) return found;
    if (error == ELOOP)
        fail("open {} for the cage: it is a link, or lies behind one; name the place itself", path.native());
    fail_errno(error, "open {} for the cage as uid {}", path.native(), who.uid);
}

void check_project(const owner& who, const std::filesystem::path& path, int directory, cage_mode mode) {
    struct stat seen{};
    check(::fstat(directory, &seen), "look at {}", path.native());
    if (!S_ISDIR(seen.st_mode)) fail("{} is not a directory: a project is one", path.native());
    struct statvfs mounted{};
    check(::fstatvfs(directory, &mounted), "look at the mount of {}", path.native());
    if ((mounted.f_flag & ST_RDONLY) != 0)
        fail("{} is on a read-only mount: a project must be writable", path.native());
    int access_error = 0;
    bool credentials = false;
    std::string which;
    {
        const owner_visit visit(who);
        // faccessat2 asks with the effective ids, and those are root's: the file system ids need an open.
        const unique_fd opened(
            ::open(fmt::format("/proc/self/fd/{}", directory).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (!opened) access_error = errno;
        for (const char* name : {".ssh", ".gnupg", ".aws", ".config/gh", ".claude"}) {
            struct stat inside{};
            if (opened && ::fstatat(opened.get(), name, &inside, AT_SYMLINK_NOFOLLOW) == 0) {
                credentials = true;
                which = name;
            }
        }
    }
    if (access_error != 0) fail_errno(access_error, "read the project {} as uid {}", path.native(), who.uid);
    if (mode != cage_mode::sealed) return;
    if (const std::string place = credentials_on_the_way(path); !place.empty())
        fail("{} lies in {}, a place of credentials: a sealed session works in a project of its own",
             path.native(), place);
    if (credentials)
        fail("{} holds {}: a sealed session works in a project of its own, without credentials in it",
             path.native(), which);
    const auto home = home_of(who.uid);
    if (home && !home->empty() && *home != "/" && holds_home(directory, *home))
        fail("{} is the home of its owner, or above it: a sealed session works in a project of its own",
             path.native());
}

} // namespace pinfold
