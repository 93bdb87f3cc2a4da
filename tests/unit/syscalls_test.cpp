// The seccomp filter, read as the kernel reads it: a small classic-BPF machine over a table of calls.
#include "cage/syscall_list.hpp"
#include "cage/syscalls.hpp"
#include "spec/cage_spec.hpp"
#include "support/catch.hpp"

#include <csignal>
#include <cstring>
#include <initializer_list>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <sys/syscall.h>

using namespace pinfold;

namespace {

using values = std::initializer_list<std::uint64_t>;

constexpr int allowed = 0;
constexpr std::uint64_t above_32_bits = 0x7'0000'0000;

struct call {
    std::string_view name;
    std::uint64_t args[6] = {};
};

// The number the kernel uses, from a place other than the list under test where there is one.
int number_of(std::string_view name) {
    const int number = seccomp_syscall_resolve_name(std::string(name).c_str());
    if (number >= 0) return number;
    for (const auto& newer : syscall_list::newer_calls)
        if (newer.name == name) return newer.number;
    return -1;
}

std::uint32_t load(const seccomp_data& data, std::uint32_t offset) {
    std::uint32_t word = 0;
    REQUIRE(offset + sizeof word <= sizeof data);
    std::memcpy(&word, reinterpret_cast<const char*>(&data) + offset, sizeof word);
    return word;
}

bool holds(std::uint16_t code, std::uint32_t a, std::uint32_t operand) {
    switch (BPF_OP(code)) {
    case BPF_JEQ: return a == operand;
    case BPF_JGT: return a > operand;
    case BPF_JGE: return a >= operand;
    case BPF_JSET: return (a & operand) != 0;
    default: FAIL("a jump this interpreter does not know: " << code); return false;
    }
}

// The value the filter returns. Knows exactly the instructions such filters are made of.
std::uint32_t run(std::span<const sock_filter> code, const seccomp_data& data) {
    std::uint32_t a = 0;
    for (std::size_t at = 0; at < code.size(); ++at) {
        const sock_filter& op = code[at];
        switch (BPF_CLASS(op.code)) {
        case BPF_LD: a = load(data, op.k); break;
        case BPF_ALU:
            REQUIRE(BPF_OP(op.code) == BPF_AND);
            a &= op.k;
            break;
        case BPF_RET: return op.k;
        case BPF_JMP:
            if (BPF_OP(op.code) == BPF_JA)
                at += op.k;
            else
                at += holds(op.code, a, op.k) ? op.jt : op.jf;
            break;
        default: FAIL("an instruction this interpreter does not know: " << op.code);
        }
    }
    FAIL("the filter ends without an answer");
    return 0;
}

// 0 where the call is allowed, else the errno the caller sees.
int answer(std::span<const sock_filter> code, int number, const std::uint64_t (&args)[6] = {},
           std::uint32_t arch = seccomp_arch_native()) {
    seccomp_data data{.nr = number, .arch = arch, .instruction_pointer = 0, .args = {}};
    std::memcpy(data.args, args, sizeof data.args);
    const std::uint32_t value = run(code, data);
    if (value == SECCOMP_RET_ALLOW) return 0;
    REQUIRE((value & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO);
    return static_cast<int>(value & SECCOMP_RET_DATA);
}

int answer(cage_mode mode, const call& what) {
    static const auto sealed = compile_filter(cage_mode::sealed);
    static const auto caged = compile_filter(cage_mode::caged);
    INFO("system call " << what.name);
    const int number = number_of(what.name);
    REQUIRE(number >= 0);
    return answer(mode == cage_mode::sealed ? sealed : caged, number, what.args);
}

int both(const call& what) {
    const int sealed = answer(cage_mode::sealed, what);
    REQUIRE(answer(cage_mode::caged, what) == sealed);
    return sealed;
}

} // namespace

TEST_CASE("calls that programs live on are allowed in both modes") {
    for (const std::string_view name : {"read",         "write",
                                        "openat",       "openat2",
                                        "execve",       "execveat",
                                        "exit_group",   "futex",
                                        "clone",        "vfork",
                                        "rt_sigreturn", "restart_syscall",
                                        "ptrace",       "process_vm_readv",
                                        "connect",      "sendmmsg",
                                        "setgroups",    "chown",
                                        "fchmodat2",    "statx",
                                        "rseq",         "landlock_create_ruleset",
                                        "chroot",       "seccomp",
                                        "cachestat",    "mseal",
                                        "close_range",  "memfd_create",
                                        "faccessat2",   "epoll_pwait2",
                                        "io_setup",     "futex_waitv"})
        CHECK(both({name}) == allowed);
}

TEST_CASE("every name on a list is a system call of Linux") {
    const auto known = [](std::string_view name) {
        CAPTURE(name);
        // A pseudo number, below zero, is a call of another architecture.
        CHECK((number_of(name) >= 0 ||
               seccomp_syscall_resolve_name(std::string(name).c_str()) != __NR_SCMP_ERROR));
    };
    for (const auto name : syscall_list::allowed) known(name);
    for (const auto name : syscall_list::for_namespaces) known(name);
    for (const auto name : syscall_list::not_permitted) known(name);
    for (const auto name : syscall_list::new_mount_calls) known(name);
    for (const auto& call : syscall_list::judged) known(call.name);
}

TEST_CASE("numbers of calls newer than the headers agree with a libseccomp that knows them") {
    for (const auto& newer : syscall_list::newer_calls) {
        const int number = seccomp_syscall_resolve_name(std::string(newer.name).c_str());
        CAPTURE(newer.name);
        if (number >= 0) CHECK(number == newer.number);
    }
}

TEST_CASE("io_uring, and what nobody listed, answers that it does not exist") {
    for (const std::string_view name : {"io_uring_setup", "io_uring_enter", "io_uring_register", "uselib",
                                        "modify_ldt", "vserver", "lsm_set_self_attr"})
        if (number_of(name) >= 0) CHECK(both({name}) == ENOSYS);
    const auto filter = compile_filter(cage_mode::sealed);
    for (const int number : {460, 470, 600, 1000, 0x3fffffff}) CHECK(answer(filter, number) == ENOSYS);
}

TEST_CASE("calls into the machine are not permitted") {
    for (const std::string_view name :
         {"bpf",           "keyctl",     "add_key",         "request_key",       "perf_event_open",
          "userfaultfd",   "kexec_load", "kexec_file_load", "init_module",       "finit_module",
          "delete_module", "reboot",     "swapon",          "swapoff",           "settimeofday",
          "clock_settime", "acct",       "quotactl",        "open_by_handle_at", "syslog",
          "iopl",          "ioperm"})
        CHECK(both({name}) == EPERM);
}

TEST_CASE("namespaces and mounts are for caged cages") {
    for (const std::string_view name :
         {"mount", "umount2", "pivot_root", "setns", "sethostname", "setdomainname"}) {
        CHECK(answer(cage_mode::sealed, {name}) == EPERM);
        CHECK(answer(cage_mode::caged, {name}) == allowed);
    }
    CHECK(answer(cage_mode::sealed, {"clone3"}) == ENOSYS);
    CHECK(answer(cage_mode::caged, {"clone3"}) == allowed);
    for (const std::string_view name : {"fsopen", "fsmount", "open_tree", "move_mount", "mount_setattr"}) {
        CHECK(answer(cage_mode::sealed, {name}) == EPERM);
        CHECK(answer(cage_mode::caged, {name}) == ENOSYS); // tools fall back to mount(2)
    }
}

TEST_CASE("a sealed cage makes no namespace, whatever stands beside the flag") {
    constexpr std::uint64_t thread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD;
    for (const std::uint64_t flag : values{CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET,
                                           CLONE_NEWIPC, CLONE_NEWUTS, CLONE_NEWCGROUP}) {
        CHECK(answer(cage_mode::sealed, {"clone", {flag | SIGCHLD}}) == EPERM);
        CHECK(answer(cage_mode::sealed, {"clone", {flag | above_32_bits}}) == EPERM);
        CHECK(answer(cage_mode::sealed, {"clone", {flag | thread}}) == EPERM);
        CHECK(answer(cage_mode::sealed, {"unshare", {flag}}) == EPERM);
        CHECK(answer(cage_mode::sealed, {"unshare", {flag | CLONE_FILES | above_32_bits}}) == EPERM);
        CHECK(answer(cage_mode::caged, {"clone", {flag | SIGCHLD}}) == allowed);
        CHECK(answer(cage_mode::caged, {"unshare", {flag}}) == allowed);
    }
    CHECK(answer(cage_mode::sealed, {"unshare", {0x80 /* CLONE_NEWTIME */}}) == EPERM);
    CHECK(both({"clone", {thread | SIGCHLD}}) == allowed);
    CHECK(both({"clone", {CLONE_VFORK | CLONE_VM | SIGCHLD}}) == allowed);
    CHECK(both({"unshare", {CLONE_FS | CLONE_FILES | CLONE_SYSVSEM}}) == allowed);
}

TEST_CASE("exactly four socket families exist, and netlink is route alone") {
    for (std::uint64_t family = 0; family <= 64; ++family)
        for (std::uint64_t type = 0; type < 16; ++type)
            for (const std::uint64_t protocol : values{0, 1, 6, 9, 15, 16, 17, 58, 132, 136, 255, 262}) {
                const bool ip_or_unix = family == AF_UNIX || family == AF_INET || family == AF_INET6;
                const bool route = family == AF_NETLINK && protocol == 0;
                const int expected = (ip_or_unix || route) && type != SOCK_PACKET ? allowed : EAFNOSUPPORT;
                CAPTURE(family, type, protocol);
                REQUIRE(both({"socket", {family, type | SOCK_CLOEXEC, protocol}}) == expected);
            }
}

TEST_CASE("bits above the kernel's int change no socket's family") {
    constexpr std::uint64_t bits = above_32_bits;
    CHECK(both({"socket", {bits | AF_VSOCK, SOCK_STREAM, 0}}) == EAFNOSUPPORT);
    CHECK(both({"socket", {bits | AF_ALG, SOCK_SEQPACKET, 0}}) == EAFNOSUPPORT);
    CHECK(both({"socket", {AF_NETLINK, SOCK_RAW, bits | 15}}) == EAFNOSUPPORT);
    CHECK(both({"socket", {AF_INET, bits | SOCK_PACKET, 0}}) == EAFNOSUPPORT);
    CHECK(both({"socket", {bits | AF_INET, bits | SOCK_STREAM, bits}}) ==
          allowed); // what the kernel makes of it
    CHECK(both({"socketpair", {AF_UNIX, SOCK_STREAM, 0}}) == allowed);
    CHECK(both({"socketpair", {bits | AF_TIPC, SOCK_STREAM, 0}}) == EAFNOSUPPORT);
}

TEST_CASE("nobody types into a terminal, not even with bits above the request") {
    for (const std::uint64_t request : values{TIOCSTI, TIOCLINUX, TIOCSETD}) {
        CHECK(both({"ioctl", {0, request, 0}}) == EPERM);
        CHECK(both({"ioctl", {0, request | above_32_bits, 0}}) == EPERM);
        CHECK(both({"ioctl", {0, request | 0xffff'ffff'0000'0000, 0}}) == EPERM);
    }
    for (const std::uint64_t request : values{TCGETS, TIOCGWINSZ, FIONREAD, TIOCSCTTY, TIOCGPTN})
        CHECK(both({"ioctl", {0, request, 0}}) == allowed);
}

TEST_CASE("device nodes are not made, FIFOs, sockets and files are") {
    for (const std::uint64_t kind : values{S_IFCHR, S_IFBLK, S_IFDIR, S_IFLNK}) {
        if (number_of("mknod") >= 0) CHECK(both({"mknod", {0, kind | 0666}}) == EPERM);
        CHECK(both({"mknodat", {0, 0, kind | 0666}}) == EPERM);
        CHECK(both({"mknodat", {0, 0, kind | 0666 | above_32_bits | 0xffff'0000}}) == EPERM);
    }
    for (const std::uint64_t kind : values{0, S_IFREG, S_IFIFO, S_IFSOCK}) {
        if (number_of("mknod") >= 0) CHECK(both({"mknod", {0, kind | 0666}}) == allowed);
        CHECK(both({"mknodat", {0, 0, kind | 0666}}) == allowed);
    }
}

TEST_CASE("the personality is asked for and set to plain Linux only") {
    for (const std::uint64_t value : values{0UL, 8UL, 0x20000UL, 0x20008UL, 0xffffffffUL, ~0UL})
        CHECK(both({"personality", {value}}) == allowed);
    constexpr std::uint64_t read_implies_exec = 0x0400000;
    CHECK(both({"personality", {read_implies_exec}}) == EPERM);
    CHECK(both({"personality", {above_32_bits | read_implies_exec}}) == EPERM);
}

TEST_CASE("foreign system call ABIs are refused as a whole") {
    for (const cage_mode mode : {cage_mode::sealed, cage_mode::caged}) {
        const auto filter = compile_filter(mode);
        CHECK(answer(filter, -1) == ENOSYS);
#ifdef __x86_64__
        constexpr int x32 = 0x40000000;
        for (int number = 0; number < 600; ++number) {
            REQUIRE(answer(filter, number, {}, AUDIT_ARCH_I386) == ENOSYS);
            REQUIRE(answer(filter, number, {}, AUDIT_ARCH_AARCH64) == ENOSYS);
            REQUIRE(answer(filter, x32 | number) == ENOSYS);
        }
        constexpr std::uint64_t unix_stream[6] = {AF_UNIX, SOCK_STREAM};
        CHECK(answer(filter, SYS_socket, unix_stream) == allowed);
        CHECK(answer(filter, x32 | SYS_socket, unix_stream) == ENOSYS);
        CHECK(answer(filter, SYS_socket, unix_stream, AUDIT_ARCH_I386) ==
              ENOSYS); // i386's readlink number is another
#endif
    }
}
