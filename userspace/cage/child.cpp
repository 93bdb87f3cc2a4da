#include "cage/child.hpp"

#include "cage/capabilities.hpp"
#include "cage/fd_passing.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/keyctl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace pinfold {

namespace {

class child {
public:
    explicit child(const child_work& work) noexcept : work_(work) {}

    [[noreturn]] void build() noexcept;
    [[noreturn]] void enter(int init_pidfd, int sync) noexcept;

private:
    [[noreturn]] void die(child_act act, int error) const noexcept {
        const child_report report{act, static_cast<std::uint32_t>(error)};
        (void)!::write(work_.report, &report, sizeof report);
        ::_exit(126);
    }
    long must(long result, child_act act) const noexcept {
        if (result < 0) die(act, errno);
        return result;
    }

    void receive_mounts() noexcept;
    void become_root() const noexcept;
    void place_root() const noexcept;
    void pivot() const noexcept;
    void mount_proc(bool masked) const noexcept;
    void mount_sys() const noexcept;
    void mount_dev() const noexcept;
    void mount_run() const noexcept;
    void place_binds() const noexcept;
    void write_files() const noexcept;
    void drop_capabilities() const noexcept;
    void filter_syscalls() const noexcept;
    void join_keyring() const noexcept;
    void do_step(const step& each) const noexcept;
    void harden(const step& each) const noexcept;
    void await_start() const noexcept;
    struct forked {
        pid_t pid;
        int pidfd;
    };
    [[nodiscard]] forked fork_with_pidfd(unsigned long flags) const noexcept;
    void send_fd(int socket, int fd) const noexcept;
    void close_others() const noexcept;
    void keep_only(std::array<int, 9> kept) const noexcept;
    [[noreturn]] void run_init(pid_t program) const noexcept;
    [[noreturn]] void run_program() const noexcept;

    [[nodiscard]] int open_beneath(const char* path, std::uint64_t flags,
                                   int folder = AT_FDCWD) const noexcept;
    void make_target(const std::string& path, bool is_file) const noexcept;
    void attach(int mount, const char* target, child_act act) const noexcept;
    void mount_new(const char* type, const char* target, unsigned attributes, const char* mode,
                   child_act act) const noexcept;
    void cover(const char* path, int empty) const noexcept;

    const child_work& work_;
    std::array<int, most_child_mounts> mounts_{};
    std::size_t mount_count_ = 0;
    // Where in mounts_ each kind begins.
    [[nodiscard]] std::size_t dev_at() const noexcept { return work_.layer_targets.size(); }
    [[nodiscard]] std::size_t binds_at() const noexcept { return dev_at() + 4; }
};

template <typename Step>
const Step* find(std::span<const step> steps) noexcept {
    for (const step& each : steps) {
        if (const auto* found = std::get_if<Step>(&each)) return found;
    }
    return nullptr;
}

// The keeper's last word before the machine's tree is out of reach.
void child::receive_mounts() noexcept {
    char byte = 0;
    iovec part{.iov_base = &byte, .iov_len = 1};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * most_child_mounts)> control{};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    if (must(::recvmsg(work_.sync, &header, MSG_CMSG_CLOEXEC), child_act::receive_mounts) != 1)
        die(child_act::receive_mounts, EPIPE); // the keeper gave up
    for (cmsghdr* each = CMSG_FIRSTHDR(&header); each != nullptr; each = CMSG_NXTHDR(&header, each)) {
        if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS) continue;
        mount_count_ = (each->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        std::memcpy(mounts_.data(), CMSG_DATA(each), mount_count_ * sizeof(int));
    }
    if (mount_count_ != binds_at() + work_.bind_targets.size()) die(child_act::receive_mounts, EBADMSG);
}

void child::become_root() const noexcept {
    must(::setresgid(0, 0, 0), child_act::become_root);
    must(::setgroups(0, nullptr), child_act::become_root);
    must(::setresuid(0, 0, 0), child_act::become_root);
    (void)::umask(022);
}

int child::open_beneath(const char* path, std::uint64_t flags, int folder) const noexcept {
    open_how how{};
    how.flags = flags | O_CLOEXEC;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    return static_cast<int>(::syscall(SYS_openat2, folder, path, &how, sizeof how));
}

// No link is followed on the way to a target: in a kept upper the cage may have made one.
void child::attach(int mount, const char* target, child_act act) const noexcept {
    const int place = open_beneath(target, O_PATH);
    must(place, act);
    must(::move_mount(mount, "", place, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH), act);
    ::close(place);
}

// mount(2) would follow a link in the target's place, and out of the root: until the pivot "/" is the machine's.
void child::mount_new(const char* type, const char* target, unsigned attributes, const char* mode,
                      child_act act) const noexcept {
    const int context = static_cast<int>(must(::fsopen(type, FSOPEN_CLOEXEC), act));
    if (mode != nullptr) must(::fsconfig(context, FSCONFIG_SET_STRING, "mode", mode, 0), act);
    must(::fsconfig(context, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0), act);
    const int mount = static_cast<int>(must(::fsmount(context, FSMOUNT_CLOEXEC, attributes), act));
    attach(mount, target, act);
    ::close(mount);
    ::close(context);
}

void child::place_root() const noexcept {
    if (mount_count_ == 0) die(child_act::place_root, ENOENT);
    must(::move_mount(mounts_[0], "", AT_FDCWD, work_.root_place.c_str(), MOVE_MOUNT_F_EMPTY_PATH),
         child_act::place_root);
    must(::chdir(work_.root_place.c_str()), child_act::place_root);
    for (std::size_t i = 1; i < work_.layer_targets.size(); ++i)
        attach(mounts_[i], work_.layer_targets[i].c_str(), child_act::place_layer);
}

// From here on "." is "/", and the machine's tree cannot be named any more.
void child::pivot() const noexcept {
    must(::syscall(SYS_pivot_root, ".", "."), child_act::pivot);
    must(::umount2(".", MNT_DETACH), child_act::pivot);
    must(::chdir("/"), child_act::pivot);
    write_files();
}

// Over a file /dev/null, over a folder an empty one; what this kernel does not have needs no cover.
void child::cover(const char* path, int empty) const noexcept {
    struct stat seen{};
    if (::fstatat(AT_FDCWD, path, &seen, AT_SYMLINK_NOFOLLOW) != 0) return;
    const bool folder = S_ISDIR(seen.st_mode);
    const int mount = static_cast<int>(
        folder ? ::open_tree(empty, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)
               : ::open_tree(AT_FDCWD, "dev/null", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
    must(mount, child_act::mask_proc);
    attach(mount, path, child_act::mask_proc);
    ::close(mount);
}

void child::mount_proc(bool masked) const noexcept {
    mount_new("proc", "proc", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, nullptr,
              child_act::mount_proc);
    if (!masked) return;
    // The empty tree must be attached to be cloned (before 6.15): it covers the first folder and is cloned from there.
    attach(mounts_[dev_at() + 2], "proc/bus", child_act::mask_proc);
    const int empty = open_beneath("proc/bus", O_PATH | O_DIRECTORY);
    must(empty, child_act::mask_proc);
    for (const char* path :
         {"proc/acpi",          "proc/asound",      "proc/driver",      "proc/fs",
          "proc/irq",           "proc/scsi",        "proc/tty",         "proc/dynamic_debug",
          "proc/interrupts",    "proc/iomem",       "proc/ioports",     "proc/kallsyms",
          "proc/kcore",         "proc/key-users",   "proc/keys",        "proc/kmsg",
          "proc/kpagecgroup",   "proc/kpagecount",  "proc/kpageflags",  "proc/latency_stats",
          "proc/modules",       "proc/sched_debug", "proc/slabinfo",    "proc/softirqs",
          "proc/sysrq-trigger", "proc/timer_list",  "proc/vmallocinfo", "proc/zoneinfo"})
        cover(path, empty);
    ::close(empty);
    const int settings = static_cast<int>(
        ::open_tree(AT_FDCWD, "proc/sys", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
    must(settings, child_act::mask_proc);
    mount_attr read_only{};
    read_only.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    must(::mount_setattr(settings, "", AT_EMPTY_PATH, &read_only, sizeof read_only), child_act::mask_proc);
    attach(settings, "proc/sys", child_act::mask_proc);
    ::close(settings);
}

void child::mount_sys() const noexcept {
    attach(mounts_[dev_at() + 1], "sys", child_act::mount_sys);
}

void child::mount_dev() const noexcept {
    attach(mounts_[dev_at()], "dev", child_act::mount_dev);
    attach(mounts_[dev_at() + 3], "dev/pts", child_act::mount_dev);
    mount_new("tmpfs", "dev/shm", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, "1777", child_act::mount_dev);
    mount_new("mqueue", "dev/mqueue", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, nullptr,
              child_act::mount_dev);
}

void child::mount_run() const noexcept {
    mount_new("tmpfs", "run", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, "755", child_act::mount_run);
    must(::mkdir("run/lock", 01777), child_act::mount_run);
    must(::chmod("run/lock", 01777), child_act::mount_run);
}

// Makes the folders on the way to a bind, as root inside and so in the cage's own upper. Each is made within the one
// before by descriptor: a project is shared with other cages of its owner, and they may swap a folder for a link.
void child::make_target(const std::string& path, bool is_file) const noexcept {
    std::array<char, NAME_MAX + 1> name{};
    int folder = static_cast<int>(must(open_beneath(".", O_PATH | O_DIRECTORY), child_act::place_bind));
    for (std::size_t begin = 0; begin < path.size();) {
        const std::size_t end = std::min(path.find('/', begin), path.size());
        if (end - begin > NAME_MAX) die(child_act::place_bind, ENAMETOOLONG);
        std::memcpy(name.data(), path.data() + begin, end - begin);
        name[end - begin] = '\0';
        begin = end + 1;
        const bool file = is_file && end == path.size();
        const int made = file ? ::mknodat(folder, name.data(), S_IFREG | 0644, 0)
                              : ::mkdirat(folder, name.data(), 0755);
        if (made != 0 && errno != EEXIST) die(child_act::place_bind, errno);
        const int next = open_beneath(name.data(), O_PATH | (file ? 0U : std::uint64_t{O_DIRECTORY}), folder);
        must(next, child_act::place_bind); // a link here ends the start
        ::close(folder);
        folder = next;
    }
    ::close(folder);
}

void child::place_binds() const noexcept {
    for (std::size_t i = 0; i < work_.bind_targets.size(); ++i) {
        make_target(work_.bind_targets[i], work_.bind_is_file[i]);
        attach(mounts_[binds_at() + i], work_.bind_targets[i].c_str(), child_act::place_bind);
    }
}

// Written as root inside, within the cage's own root: a link that the cage left leads nowhere else, and is not followed.
void child::write_files() const noexcept {
    for (const cage_file& file : work_.files) {
        (void)::unlink(file.path.c_str());
        const int fd = static_cast<int>(
            ::open(file.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
        must(fd, child_act::write_files);
        must(::write(fd, file.text.data(), file.text.size()), child_act::write_files);
        ::close(fd);
    }
}

void child::join_keyring() const noexcept {
    must(::syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr), child_act::join_keyring);
}

void child::drop_capabilities() const noexcept {
    std::uint64_t kept = 0;
    for (const int capability : kept_capabilities) kept |= std::uint64_t{1} << capability;
    for (unsigned long capability = 0; ::prctl(PR_CAPBSET_READ, capability) >= 0; ++capability) {
        if ((kept >> capability & 1) == 0)
            must(::prctl(PR_CAPBSET_DROP, capability), child_act::drop_capabilities);
    }
    must(::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), child_act::drop_capabilities);
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3};
    std::array<__user_cap_data_struct, 2> data{};
    for (std::size_t half = 0; half < data.size(); ++half) {
        const auto bits = static_cast<std::uint32_t>(kept >> (32 * half));
        data[half] = {.effective = bits, .permitted = bits, .inheritable = 0};
    }
    must(::syscall(SYS_capset, &header, data.data()), child_act::drop_capabilities);
}

void child::filter_syscalls() const noexcept {
    const sock_fprog program{.len = static_cast<unsigned short>(work_.filter.size()),
                             .filter = const_cast<sock_filter*>(work_.filter.data())};
    must(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), child_act::filter_syscalls);
}

// Each step of the plan that is the child's. One that is left out of the plan is left out here: that is a mutation.
void child::do_step(const step& each) const noexcept {
    if (const auto* name = std::get_if<pinfold::set_hostname>(&each))
        must(::sethostname(name->name.data(), name->name.size()), child_act::set_hostname);
    else if (std::holds_alternative<pinfold::place_root>(each))
        place_root();
    else if (std::holds_alternative<pinfold::mount_dev>(each))
        mount_dev();
    else if (const auto* proc = std::get_if<pinfold::mount_proc>(&each))
        mount_proc(proc->masked);
    else if (std::holds_alternative<pinfold::mount_sys>(each))
        mount_sys();
    else if (std::holds_alternative<pinfold::mount_run>(each))
        mount_run();
    else if (std::holds_alternative<pinfold::place_binds>(each))
        place_binds();
    else if (std::holds_alternative<pinfold::pivot>(each))
        pivot();
    else
        harden(each);
}

// The steps that a program which enters later needs as well.
void child::harden(const step& each) const noexcept {
    if (std::holds_alternative<pinfold::join_keyring>(each))
        join_keyring();
    else if (std::holds_alternative<pinfold::drop_capabilities>(each))
        drop_capabilities();
    else if (std::holds_alternative<pinfold::no_new_privileges>(each))
        must(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), child_act::no_new_privileges);
    else if (std::holds_alternative<pinfold::filter_syscalls>(each))
        filter_syscalls();
}

void child::await_start() const noexcept {
    const child_report ready{child_act::ready, 0};
    must(::write(work_.report, &ready, sizeof ready), child_act::await_relay);
    char byte = 0;
    if (must(::recv(work_.sync, &byte, 1, 0), child_act::await_relay) != 1)
        die(child_act::await_relay, EPIPE);
}

// A clone has every fd of the keeper: its lock, its agents, its own end of `sync`, which would never be seen closed.
// All but these few are closed before anything else.
void child::keep_only(std::array<int, 9> kept) const noexcept {
    std::ranges::sort(kept);
    unsigned from = 3; // the keeper's own 0 to 2 are replaced before exec
    for (const int fd : kept) {
        if (fd < static_cast<int>(from)) continue;
        if (fd > static_cast<int>(from))
            must(::syscall(SYS_close_range, from, fd - 1, 0), child_act::receive_mounts);
        from = static_cast<unsigned>(fd) + 1;
    }
    must(::syscall(SYS_close_range, from, ~0U, 0), child_act::receive_mounts);
}

void child::build() noexcept {
    const program_work& program_fds = work_.program;
    keep_only({work_.sync, work_.report, work_.init_fd, program_fds.program_fd, program_fds.standard[0],
               program_fds.standard[1], program_fds.standard[2], -1, -1});
    receive_mounts();
    become_root();
    for (const step& each : work_.steps) do_step(each);
    if (find<await_relay>(work_.steps) != nullptr) await_start();
    // The program is forked before pid 1 becomes pinfold-init, so that both execs run side by side. A raw clone: the
    // child gets no more of glibc than it needs, and the filter sees the flags.
    const auto [program, pidfd] = fork_with_pidfd(0);
    if (program == 0) run_program();
    send_fd(work_.sync, pidfd);
    run_init(program);
}

void child::enter(int init_pidfd, int sync) noexcept {
    keep_only({init_pidfd, sync, work_.report, work_.program.program_fd, work_.program.standard[0],
               work_.program.standard[1], work_.program.standard[2], -1, -1});
    must(::setns(init_pidfd, CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                                 CLONE_NEWUTS | CLONE_NEWCGROUP),
         child_act::join_namespaces);
    const auto [program, pidfd] = fork_with_pidfd(CLONE_PARENT);
    if (program != 0) {
        send_fd(sync, pidfd);
        ::_exit(0);
    }
    become_root();
    for (const step& each : work_.steps) harden(each);
    run_program();
}

child::forked child::fork_with_pidfd(unsigned long flags) const noexcept {
    int pidfd = -1;
    const long pid = ::syscall(SYS_clone, CLONE_PIDFD | SIGCHLD | flags, nullptr, &pidfd, nullptr, 0);
    return {static_cast<pid_t>(must(pid, child_act::fork_program)), pidfd};
}

void child::send_fd(int socket, int fd) const noexcept {
    must(send_fds(socket, {&fd, 1}), child_act::fork_program);
}

// Everything of ours is close-on-exec already; what the keeper itself inherited may not be.
void child::close_others() const noexcept {
    must(::syscall(SYS_close_range, 3, ~0U, CLOSE_RANGE_CLOEXEC), child_act::run_program);
}

void child::run_init(pid_t program) const noexcept {
    close_others();
    std::array<char, 16> number{};
    (void)std::snprintf(number.data(), number.size(), "%d", program);
    std::array<char*, 3> argv{const_cast<char*>("pinfold-init"), number.data(), nullptr};
    std::array<char*, 1> empty{nullptr};
    must(::syscall(SYS_execveat, work_.init_fd, "", argv.data(), empty.data(), AT_EMPTY_PATH),
         child_act::run_init);
    ::_exit(126);
}

void child::run_program() const noexcept {
    const program_work& program = work_.program;
    must(::setsid(), child_act::enter_terminal);
    for (int target = 0; target < 3; ++target)
        must(::dup2(program.standard[target], target), child_act::enter_terminal);
    if (program.terminal) must(::ioctl(0, TIOCSCTTY, 0), child_act::enter_terminal);
    close_others();
    must(::chdir(program.directory.c_str()), child_act::enter_directory);
    for (int number = 1; number < NSIG; ++number) (void)std::signal(number, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    (void)::sigprocmask(SIG_SETMASK, &none, nullptr);
    if (program.program_fd >= 0) {
        (void)::syscall(SYS_execveat, program.program_fd, "", program.argv.data(), program.environment.data(),
                        AT_EMPTY_PATH);
        die(child_act::run_program, errno);
    }
    int error = ENOENT;
    for (const std::string& path : program.candidates) { // as execvp: go on past what is not there
        (void)::execve(path.c_str(), program.argv.data(), program.environment.data());
        if (errno != ENOENT && errno != ENOTDIR) error = errno;
        if (error != ENOENT && error != EACCES) break;
    }
    die(child_act::run_program, error);
}

} // namespace

const char* to_string(child_act act) noexcept {
    switch (act) {
    case child_act::ready: return "get ready";
    case child_act::receive_mounts: return "receive its mounts";
    case child_act::become_root: return "become root inside";
    case child_act::join_keyring: return "join a session keyring";
    case child_act::set_hostname: return "set its hostname";
    case child_act::place_root: return "place its root";
    case child_act::place_layer: return "place a layer of its image";
    case child_act::mount_proc: return "mount /proc (is a part of the machine's own /proc covered?)";
    case child_act::mask_proc: return "mask /proc";
    case child_act::mount_sys: return "place /sys";
    case child_act::mount_dev: return "mount /dev";
    case child_act::mount_run: return "mount /run";
    case child_act::place_bind:
        return "place a directory of the owner (did the cage leave a link on the way to it?)";
    case child_act::write_files: return "write its hosts and resolv.conf";
    case child_act::pivot: return "pivot into its root";
    case child_act::drop_capabilities: return "drop capabilities";
    case child_act::no_new_privileges: return "set no_new_privs";
    case child_act::filter_syscalls: return "filter system calls";
    case child_act::await_relay: return "wait for the relay";
    case child_act::fork_program: return "fork the program";
    case child_act::run_init: return "run pinfold-init";
    case child_act::enter_terminal: return "take its terminal";
    case child_act::enter_directory: return "enter its directory";
    case child_act::join_namespaces: return "join the cage's namespaces";
    case child_act::run_program: return "run the program";
    }
    return "do something unknown";
}

void run_child(const child_work& work) noexcept {
    child(work).build();
}

void join_and_run(const child_work& work, int init_pidfd, int sync) noexcept {
    child(work).enter(init_pidfd, sync);
}

} // namespace pinfold
