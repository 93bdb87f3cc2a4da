#include "agent/lockdown.hpp"

#include "base/error.hpp"

#include <array>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace pinfold {

namespace {

using capability_sets = std::array<__user_cap_data_struct, 2>;

capability_sets read_capabilities() {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    capability_sets sets{};
    check(::syscall(SYS_capget, &header, sets.data()), "read the capabilities of the agent");
    return sets;
}

bool has_any(const capability_sets& sets) {
    return (sets[0].permitted | sets[1].permitted | sets[0].inheritable | sets[1].inheritable) != 0;
}

void drop_capabilities() {
    ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    // The bounding set needs CAP_SETPCAP, so this works only for root, and only for root it matters.
    for (int each = 0; ::prctl(PR_CAPBSET_READ, each) >= 0; ++each) ::prctl(PR_CAPBSET_DROP, each);
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    const capability_sets none{};
    check(::syscall(SYS_capset, &header, none.data()), "drop the capabilities of the agent");
    if (has_any(read_capabilities())) fail("drop the capabilities of the agent: the kernel kept some");
}

} // namespace

void check_owner() {
    if (::getuid() != ::geteuid() || ::getgid() != ::getegid())
        fail("pinfold-agent must not be set-user-ID or set-group-ID: it runs as its owner and nobody else");
    if (::getuid() == 0) {
        spdlog::warn("the owner is root: what a caged program may change of its owner's is root's own; "
                     "run pinfold as another user, or name one with 'pinfold --owner USER'");
        return;
    }
    if (has_any(read_capabilities()))
        fail("pinfold-agent must not have capabilities: it reads what cages send; start it without them");
}

void lock_down() {
    // fd 3 and up: nothing that whoever started the agent left open goes on into it, nor into an uncaged program.
    check(::syscall(SYS_close_range, 3U, ~0U, 0U), "close inherited file descriptors");
    drop_capabilities();
    check(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "give up new privileges");
    ::umask(077);
}

std::uint64_t raise_file_limit() {
    rlimit files{};
    check(::getrlimit(RLIMIT_NOFILE, &files), "read the limit of open files");
    const rlim_t before = files.rlim_cur;
    files.rlim_cur = files.rlim_max;
    check(::setrlimit(RLIMIT_NOFILE, &files), "raise the limit of open files");
    return before;
}

} // namespace pinfold
