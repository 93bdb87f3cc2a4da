// Which system calls a cage has, as data: the lists and the argument rules that syscalls.cpp compiles.
#pragma once

#include <array>
#include <cerrno>
#include <cstdint>
#include <linux/personality.h>
#include <sched.h>
#include <span>
#include <string_view>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

namespace pinfold::syscall_list {

// In both modes, whatever the arguments. What is in no list answers ENOSYS, so that a newer library falls back:
// io_uring above all, whose operations no filter sees.
inline constexpr std::string_view allowed[] = { // files
    "access", "chdir", "chmod", "chown", "close", "close_range", "copy_file_range", "creat", "dup", "dup2",
    "dup3", "faccessat", "faccessat2", "fadvise64", "fallocate", "fchdir", "fchmod", "fchmodat", "fchmodat2",
    "fchown", "fchownat", "fcntl", "fdatasync", "fgetxattr", "file_getattr", "file_setattr", "flistxattr",
    "flock", "fremovexattr", "fsetxattr", "fstat", "fstatfs", "fsync", "ftruncate", "futimesat", "getcwd",
    "getdents", "getdents64", "getxattr", "getxattrat", "lchown", "lgetxattr", "link", "linkat", "listxattr",
    "listxattrat", "llistxattr", "lremovexattr", "lseek", "lsetxattr", "lstat", "mkdir", "mkdirat",
    "name_to_handle_at", "newfstatat", "open", "openat", "openat2", "pread64", "preadv", "preadv2",
    "pwrite64", "pwritev", "pwritev2", "read", "readahead", "readlink", "readlinkat", "readv", "removexattr",
    "removexattrat", "rename", "renameat", "renameat2", "rmdir", "sendfile", "setxattr", "setxattrat",
    "splice", "stat", "statfs", "statx", "symlink", "symlinkat", "sync", "sync_file_range", "syncfs", "tee",
    "truncate", "umask", "unlink", "unlinkat", "utime", "utimensat", "utimes", "vmsplice", "write", "writev",
    // watching and waiting
    "epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd",
    "eventfd2", "fanotify_mark", "inotify_add_watch", "inotify_init", "inotify_init1", "inotify_rm_watch",
    "io_cancel", "io_destroy", "io_getevents", "io_pgetevents", "io_setup", "io_submit", "pipe", "pipe2",
    "poll", "ppoll", "pselect6", "select", "signalfd", "signalfd4", "timerfd_create", "timerfd_gettime",
    "timerfd_settime",
    // sockets; socket() and socketpair() are judged by their family
    "accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen", "recvfrom",
    "recvmmsg", "recvmsg", "sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown",
    // memory
    "brk", "cachestat", "get_mempolicy", "madvise", "map_shadow_stack", "mbind", "membarrier", "memfd_create",
    "memfd_secret", "mincore", "mlock", "mlock2", "mlockall", "mmap", "mprotect", "mremap", "mseal", "msync",
    "munlock", "munlockall", "munmap", "pkey_alloc", "pkey_free", "pkey_mprotect", "process_madvise",
    "process_mrelease", "remap_file_pages", "set_mempolicy", "set_mempolicy_home_node",
    // processes and threads; ptrace and its kin reach no further than the cage, and init is not dumpable
    "arch_prctl", "capget", "capset", "chroot", "execve", "execveat", "exit", "exit_group", "fork", "futex",
    "futex_requeue", "futex_wait", "futex_waitv", "futex_wake", "get_robust_list", "getcpu", "getegid",
    "geteuid", "getgid", "getgroups", "getpgid", "getpgrp", "getpid", "getppid", "getpriority", "getresgid",
    "getresuid", "getrlimit", "getrusage", "getsid", "gettid", "getuid", "ioprio_get", "ioprio_set", "kcmp",
    "kill", "landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self", "lsm_get_self_attr",
    "lsm_list_modules", "pidfd_getfd", "pidfd_open", "pidfd_send_signal", "prctl", "prlimit64",
    "process_vm_readv", "process_vm_writev", "ptrace", "rseq", "sched_get_priority_max",
    "sched_get_priority_min", "sched_getaffinity", "sched_getattr", "sched_getparam", "sched_getscheduler",
    "sched_rr_get_interval", "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler",
    "sched_yield", "seccomp", "set_robust_list", "set_tid_address", "setfsgid", "setfsuid", "setgid",
    "setgroups", "setpgid", "setpriority", "setregid", "setresgid", "setresuid", "setreuid", "setrlimit",
    "setsid", "setuid", "vfork", "wait4", "waitid",
    // signals
    "alarm", "getitimer", "pause", "restart_syscall", "rt_sigaction", "rt_sigpending", "rt_sigprocmask",
    "rt_sigqueueinfo", "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo", "setitimer",
    "sigaltstack", "tgkill", "timer_create", "timer_delete", "timer_getoverrun", "timer_gettime",
    "timer_settime", "tkill",
    // System V and POSIX messages, of the cage's own namespace
    "mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend", "mq_unlink", "msgctl",
    "msgget", "msgrcv", "msgsnd", "semctl", "semget", "semop", "semtimedop", "shmat", "shmctl", "shmdt",
    "shmget",
    // what time it is, what machine this is; setting the clock is the kernel's EPERM
    "adjtimex", "clock_adjtime", "clock_getres", "clock_gettime", "clock_nanosleep", "getrandom",
    "gettimeofday", "listmount", "nanosleep", "statmount", "sysinfo", "time", "times", "uname"};

// Namespaces and mounts: what bubblewrap and its like call. Caged: allowed (root inside has no CAP_SYS_ADMIN, so only
// a user namespace of its own gives them any power). Sealed: EPERM, but clone and unshare without namespace flags.
inline constexpr std::string_view for_namespaces[] = {"mount", "pivot_root", "setdomainname", "sethostname",
                                                      "setns", "umount2",    "unshare",       "clone"};

// Its flags lie in memory, where no filter can see them. Sealed: ENOSYS, and libraries fall back to clone.
inline constexpr std::string_view clone_without_visible_flags[] = {"clone3"};

// EPERM: programs that try these expect to hear "not permitted" in a container, and go on.
inline constexpr std::string_view not_permitted[] = {
    // the kernel and the machine
    "create_module", "delete_module", "finit_module", "init_module", "ioperm", "iopl", "kexec_file_load",
    "kexec_load", "reboot", "swapoff", "swapon", "syslog", "vhangup",
    // large kernel surfaces, and what is not kept apart by namespaces
    "acct", "add_key", "bpf", "clock_settime", "fanotify_init", "keyctl", "lookup_dcookie", "migrate_pages",
    "move_pages", "nfsservctl", "open_by_handle_at", "perf_event_open", "quotactl", "quotactl_fd",
    "request_key", "settimeofday", "userfaultfd"};

// The newer mount calls. ENOSYS in a caged cage, so that tools fall back to mount(2), which suffices there; EPERM sealed.
inline constexpr std::string_view new_mount_calls[] = {
    "fsconfig", "fsmount", "fsopen", "fspick", "mount_setattr", "move_mount", "open_tree", "open_tree_attr"};

// Numbers that libseccomp 2.5.4 and the headers of Linux 6.1 do not know. From 424 on they are the same everywhere.
struct newer_call {
    std::string_view name;
    int number;
};
inline constexpr newer_call newer_calls[] = {
    // 6.1 has the first
    {"set_mempolicy_home_node", 450},
    {"cachestat", 451},
    {"fchmodat2", 452},
    {"map_shadow_stack", 453},
    {"futex_wake", 454},
    {"futex_wait", 455},
    {"futex_requeue", 456},
    {"statmount", 457},
    {"listmount", 458},
    {"lsm_get_self_attr", 459},
    {"lsm_list_modules", 461},
    {"mseal", 462},
    {"setxattrat", 463},
    {"getxattrat", 464},
    {"listxattrat", 465},
    {"removexattrat", 466},
    {"open_tree_attr", 467},
    {"file_getattr", 468},
    {"file_setattr", 469}};

// ---- calls that are judged by their arguments ----

// One test of the low 32 bits of one argument. The kernel takes these arguments as an int or narrower, so a filter
// that compared all 64 bits would be passed with a bit above them (TIOCSTI, CVE-2019-10063).
struct argument_rule {
    enum class test : std::uint8_t { equals, any_bit } test;
    std::uint8_t argument;
    std::uint32_t mask;
    std::uint32_t value; // not used by any_bit
    int error;           // 0 = allowed
};

// The first rule that holds decides.
struct judged_call {
    std::string_view name;
    std::span<const argument_rule> rules;
    int otherwise; // 0 = allowed
};

inline constexpr std::uint32_t all_bits = 0xffffffffU;

constexpr argument_rule equals(std::uint8_t argument, std::uint32_t value, int error,
                               std::uint32_t mask = all_bits) {
    return {argument_rule::test::equals, argument, mask, value, error};
}
constexpr argument_rule any_bit(std::uint8_t argument, std::uint32_t mask, int error) {
    return {argument_rule::test::any_bit, argument, mask, 0, error};
}

// Families by an allow-list: cgroup hooks see INET and INET6 alone. Kinds within those are the guard's, which records
// what it refuses; but socket(AF_INET, SOCK_PACKET) is turned into AF_PACKET by the kernel, so it is refused here.
inline constexpr std::uint32_t socket_type_bits = 0xf;
inline constexpr std::array socket_rules{
    equals(1, SOCK_PACKET, EAFNOSUPPORT, socket_type_bits),
    equals(0, AF_UNIX, 0),
    equals(0, AF_INET, 0),
    equals(0, AF_INET6, 0),
    any_bit(2, all_bits, EAFNOSUPPORT), // of netlink, protocol 0 alone: NETLINK_ROUTE
    equals(0, AF_NETLINK, 0),
};
inline constexpr std::array socketpair_rules{equals(0, AF_UNIX, 0)};

// Typing into the terminal of whoever started us (TIOCSTI, TIOCLINUX's paste), and line disciplines (TIOCSETD loads
// kernel code that nobody in a cage needs).
inline constexpr std::array ioctl_rules{
    equals(1, TIOCSTI, EPERM),
    equals(1, TIOCLINUX, EPERM),
    equals(1, TIOCSETD, EPERM),
};

// No device node; 0 means a regular file.
inline constexpr std::array mknod_rules{
    equals(1, 0, 0, S_IFMT),
    equals(1, S_IFREG, 0, S_IFMT),
    equals(1, S_IFIFO, 0, S_IFMT),
    equals(1, S_IFSOCK, 0, S_IFMT),
};
inline constexpr std::array mknodat_rules{
    equals(2, 0, 0, S_IFMT),
    equals(2, S_IFREG, 0, S_IFMT),
    equals(2, S_IFIFO, 0, S_IFMT),
    equals(2, S_IFSOCK, 0, S_IFMT),
};

inline constexpr std::array personality_rules{
    equals(0, PER_LINUX, 0),   equals(0, PER_LINUX32, 0),
    equals(0, UNAME26, 0),     equals(0, std::uint32_t{PER_LINUX32} | UNAME26, 0),
    equals(0, 0xffffffffU, 0), // the last only asks
};

inline constexpr std::array judged{
    judged_call{"socket", socket_rules, EAFNOSUPPORT},
    judged_call{"socketpair", socketpair_rules, EAFNOSUPPORT},
    judged_call{"ioctl", ioctl_rules, 0},
    judged_call{"mknod", mknod_rules, EPERM},
    judged_call{"mknodat", mknodat_rules, EPERM},
    judged_call{"personality", personality_rules, EPERM},
};

// Sealed: no namespace is made. All but the user namespace would be refused for want of CAP_SYS_ADMIN anyway.
// CLONE_NEWTIME is for unshare alone: in clone() the same bit is part of the exit signal.
inline constexpr std::uint32_t namespace_flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET |
                                                 CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
inline constexpr std::uint32_t new_time_namespace = 0x80; // CLONE_NEWTIME
inline constexpr std::array sealed_clone_rules{any_bit(0, namespace_flags, EPERM)};
inline constexpr std::array sealed_unshare_rules{any_bit(0, namespace_flags | new_time_namespace, EPERM)};
inline constexpr std::array sealed_judged{
    judged_call{"clone", sealed_clone_rules, 0},
    judged_call{"unshare", sealed_unshare_rules, 0},
};

} // namespace pinfold::syscall_list
