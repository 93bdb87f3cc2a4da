// System calls that reach beyond a cage: namespaces, mounts, the kernel itself. Where a call could do something, it is
// given bad pointers and descriptors, so that nothing is ever done (act.hpp, served()).
#include "base/unique_fd.hpp"
#include "incage/probe/act.hpp"

#include <array>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

namespace pinfold::probe {
namespace {

constexpr long bad_address = 8;
constexpr std::uint64_t above_32_bits = 0x1'0000'0000;

outcome end_child(long pid) {
    if (pid < 0) return failed("clone");
    if (pid == 0) ::_exit(0);
    ::waitpid(static_cast<pid_t>(pid), nullptr, 0);
    return done();
}

outcome userns(arguments) {
    return ::unshare(CLONE_NEWUSER) == 0 ? done() : failed("unshare");
}

outcome clone_userns(arguments) {
    return end_child(::syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
}

outcome clone3_userns(arguments) {
    clone_args wanted{};
    wanted.flags = CLONE_NEWUSER;
    wanted.exit_signal = SIGCHLD;
    return end_child(::syscall(SYS_clone3, &wanted, sizeof wanted));
}

outcome unshare_net(arguments) {
    return ::unshare(CLONE_NEWNET) == 0 ? done() : failed("unshare");
}

outcome bpf(arguments) {
    return served(::syscall(SYS_bpf, 0 /* BPF_MAP_CREATE */, bad_address, 64));
}

outcome keyctl(arguments) {
    return served(::syscall(SYS_keyctl, 0 /* KEYCTL_GET_KEYRING_ID */, -3 /* the session's */, 0));
}

outcome add_key(arguments) {
    return served(::syscall(SYS_add_key, bad_address, bad_address, 0, 0, 0));
}

outcome perf(arguments) {
    return served(::syscall(SYS_perf_event_open, bad_address, 0, -1, -1, 0));
}

outcome userfault(arguments) {
    return served(::syscall(SYS_userfaultfd, ~0U));
}

outcome module(arguments) {
    return served(::syscall(SYS_finit_module, -1, "", 0));
}

outcome kexec(arguments) {
    return served(::syscall(SYS_kexec_load, 0, 0, bad_address, ~0UL));
}

outcome open_by_handle(arguments) {
    return served(::syscall(SYS_open_by_handle_at, -1, bad_address, O_RDONLY));
}

// On a fresh directory of its own, so that a success covers nothing.
outcome mount_tmpfs(arguments) {
    std::string place = "/tmp/pinfold-probe-XXXXXX";
    if (::mkdtemp(place.data()) == nullptr) return failed("mkdtemp");
    const bool mounted = ::syscall(SYS_mount, "probe", place.c_str(), "tmpfs", MS_NOSUID | MS_NODEV,
                                   nullptr) == 0;
    const outcome result = mounted ? done() : failed("mount");
    if (!mounted || ::syscall(SYS_umount2, place.c_str(), 0) == 0) ::rmdir(place.c_str());
    return result;
}

outcome new_mount(arguments) {
    const unique_fd context(static_cast<int>(::syscall(SYS_fsopen, "tmpfs", 0)));
    return context ? done() : failed("fsopen");
}

outcome umount(arguments given) {
    return ::syscall(SYS_umount2, std::string(given[0]).c_str(), 0) == 0 ? done() : failed("umount2");
}

outcome pivot(arguments) {
    const long result = ::syscall(SYS_pivot_root, "/pinfold-probe-nowhere", "/pinfold-probe-nowhere");
    return served(result);
}

outcome make_node(mode_t kind, dev_t device) {
    std::string folder = "/tmp/pinfold-probe-XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) return failed("mkdtemp");
    const std::string path = folder + "/node";
    const outcome result = ::mknod(path.c_str(), kind | 0600, device) == 0 ? done() : failed("mknod");
    ::unlink(path.c_str());
    ::rmdir(folder.c_str());
    return result;
}

outcome mknod_char(arguments) {
    return make_node(S_IFCHR, makedev(1, 3));
}

outcome mknod_block(arguments) {
    return make_node(S_IFBLK, makedev(8, 0));
}

outcome mknod_fifo(arguments) {
    return make_node(S_IFIFO, 0);
}

// To the terminal on the standard input, where there is one; without one the kernel says ENOTTY.
outcome type_into_terminal(std::uint64_t request) {
    static char letter = 'x';
    return served(::syscall(SYS_ioctl, 0, request, &letter));
}

outcome tiocsti(arguments) {
    return type_into_terminal(TIOCSTI);
}

outcome tiocsti_high(arguments) {
    return type_into_terminal(above_32_bits | TIOCSTI);
}

outcome tioclinux(arguments) {
    return type_into_terminal(TIOCLINUX);
}

outcome ptrace_init(arguments) {
    if (::ptrace(PTRACE_SEIZE, 1, nullptr, nullptr) != 0) return failed("ptrace");
    ::ptrace(PTRACE_DETACH, 1, nullptr, nullptr);
    return done();
}

outcome set_hostname(arguments) {
    std::array<char, 256> name{};
    if (::gethostname(name.data(), name.size() - 1) != 0) return failed("gethostname");
    return ::sethostname(name.data(), std::string_view(name.data()).size()) == 0 ? done()
                                                                                 : failed("sethostname");
}

// To what it is already.
outcome set_time(arguments) {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    return ::clock_settime(CLOCK_REALTIME, &now) == 0 ? done() : failed("clock_settime");
}

std::string hexadecimal(std::uint64_t value) {
    std::string text;
    for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[value >> shift & 0xf];
    return text;
}

outcome capabilities(arguments) {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    std::array<__user_cap_data_struct, 2> data{};
    if (::syscall(SYS_capget, &header, data.data()) != 0) return failed("capget");
    const auto both = [](std::uint32_t low, std::uint32_t high) { return std::uint64_t{high} << 32 | low; };
    std::uint64_t bounding = 0;
    for (unsigned bit = 0; bit < 64; ++bit)
        if (::prctl(PR_CAPBSET_READ, bit, 0, 0, 0) == 1) bounding |= std::uint64_t{1} << bit;
    return done(joined("effective=", hexadecimal(both(data[0].effective, data[1].effective)),
                       " permitted=", hexadecimal(both(data[0].permitted, data[1].permitted)), " bounding=",
                       hexadecimal(bounding), " no_new_privs=", ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)));
}

#ifdef __x86_64__
outcome foreign(long result) { // -errno, from the raw instruction
    errno = static_cast<int>(-result);
    return result >= 0 ? done() : served(-1);
}

outcome i386_abi(arguments) {
    long result = 20; // getpid there
    asm volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
    return foreign(result);
}

outcome x32_abi(arguments) {
    long result = 0x40000000 | SYS_getpid;
    asm volatile("syscall" : "+a"(result) : : "memory", "rcx", "r11");
    return foreign(result);
}
#endif

constexpr act table[] = {
    {"userns", "unshare(CLONE_NEWUSER)", 0, 0, userns},
    {"clone-userns", "clone(CLONE_NEWUSER)", 0, 0, clone_userns},
    {"clone3-userns", "clone3 with CLONE_NEWUSER", 0, 0, clone3_userns},
    {"unshare-net", "unshare(CLONE_NEWNET)", 0, 0, unshare_net},
    {"bpf", "", 0, 0, bpf},
    {"keyctl", "", 0, 0, keyctl},
    {"add-key", "", 0, 0, add_key},
    {"perf", "perf_event_open", 0, 0, perf},
    {"userfaultfd", "", 0, 0, userfault},
    {"module", "finit_module", 0, 0, module},
    {"kexec", "", 0, 0, kexec},
    {"open-by-handle", "", 0, 0, open_by_handle},
    {"mount", "a tmpfs on a directory of its own", 0, 0, mount_tmpfs},
    {"fsopen", "the newer mount calls", 0, 0, new_mount},
    {"umount", "PATH", 1, 1, umount},
    {"pivot", "pivot_root", 0, 0, pivot},
    {"mknod-char", "", 0, 0, mknod_char},
    {"mknod-block", "", 0, 0, mknod_block},
    {"mknod-fifo", "", 0, 0, mknod_fifo},
    {"tiocsti", "", 0, 0, tiocsti},
    {"tiocsti-high", "with a bit above the lower 32", 0, 0, tiocsti_high},
    {"tioclinux", "", 0, 0, tioclinux},
    {"ptrace-init", "", 0, 0, ptrace_init},
    {"sethostname", "to what it is", 0, 0, set_hostname},
    {"settime", "to what it is", 0, 0, set_time},
    {"capget", "print the capability sets", 0, 0, capabilities},
#ifdef __x86_64__
    {"i386", "a system call by int 0x80", 0, 0, i386_abi},
    {"x32", "a system call by its x32 number", 0, 0, x32_abi},
#endif
};

} // namespace

std::span<const act> system_acts() {
    return table;
}

} // namespace pinfold::probe
