#include "cage/cage.hpp"

#include "base/error.hpp"
#include "base/file.hpp"
#include "cage/fd_passing.hpp"
#include "cage/program.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sstream>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>

namespace pinfold {

static_assert(most_child_mounts <= most_passed_fds);

namespace {

using namespace std::chrono_literals;

constexpr auto kill_limit = 10s;

template <typename... Cases>
struct overloaded : Cases... {
    using Cases::operator()...;
};

std::string without_slash(const std::string& path) {
    return path.starts_with('/') ? path.substr(1) : path;
}

std::vector<cage_file> files_of(const cage_spec& spec) {
    std::string resolvers = "nameserver 1.1.1.1\nnameserver 9.9.9.9\n";
    if (spec.mode == cage_mode::caged) {
        resolvers = "nameserver 192.0.0.1\n";
        if (!spec.search_domains.empty()) {
            resolvers += "search";
            for (const std::string& domain : spec.search_domains) resolvers += " " + domain;
            resolvers += "\n";
        }
    }
    return {
        {"etc/hostname", spec.name + "\n"},
        {"etc/hosts", fmt::format("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n192.0.0.2 "
                                  "{0}\nfd5e:ca9e:1::2 {0}\n",
                                  spec.name)},
        {"etc/resolv.conf", resolvers},
    };
}

struct socket_pair {
    unique_fd ours;
    unique_fd theirs;
};
socket_pair make_sync() {
    std::array<int, 2> ends{};
    check(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()),
          "make a socket pair for the child of a cage");
    return {unique_fd(ends[0]), unique_fd(ends[1])};
}
socket_pair make_report_pipe() {
    std::array<int, 2> ends{};
    check(::pipe2(ends.data(), O_CLOEXEC), "make a pipe for the child of a cage");
    return {unique_fd(ends[0]), unique_fd(ends[1])};
}

// For the time of a clone: what is born here is born in the cage's network namespace, which belongs to the initial user
// namespace, so that root inside has no power over it.
class network_visit {
public:
    explicit network_visit(int space)
        : home_(check(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC),
                      "open the keeper's network namespace")) {
        check(::setns(space, CLONE_NEWNET), "enter the cage's network namespace");
    }
    network_visit(const network_visit&) = delete;
    network_visit& operator=(const network_visit&) = delete;
    ~network_visit() {
        if (::setns(home_.get(), CLONE_NEWNET) != 0)
            std::abort(); // a keeper in a cage's namespace must not go on
    }

private:
    unique_fd home_;
};

// A keeper may be spared where the machine runs out of memory (OOMScoreAdjust= of its unit); what is born in a cage must
// not be. Written to the child it would be too late for what that has forked, and what a cage writes itself it could take
// back: so the keeper is not spared for the time of a clone. What it was, or nothing.
constexpr const char* oom_score = "/proc/self/oom_score_adj";
std::string stop_sparing() {
    std::string before = read_file(oom_score);
    if (before == "0\n") return {};
    write_file_at(AT_FDCWD, oom_score, "0");
    return before;
}

struct clone_result {
    pid_t pid = 0;
    unique_fd pidfd;
};
clone_result clone_into(int cgroup, std::uint64_t flags) {
    int pidfd = -1;
    clone_args args{};
    args.flags = flags | CLONE_PIDFD | CLONE_INTO_CGROUP;
    args.pidfd = reinterpret_cast<std::uintptr_t>(&pidfd);
    args.exit_signal = SIGCHLD;
    args.cgroup = static_cast<std::uint64_t>(cgroup);
    const std::string spared = stop_sparing();
    const long pid = ::syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0) return {};
    const int error = errno;
    if (!spared.empty()) write_file_at(AT_FDCWD, oom_score, spared);
    if (pid < 0 && error == EAGAIN)
        fail("start a program in the cage: it has as many processes as its limit allows; end some, or raise "
             "the limit");
    if (pid < 0) fail_errno(error, "clone a child into the cgroup of the cage");
    return {static_cast<pid_t>(pid), unique_fd(pidfd)};
}

// The pidfd that the child sends before it becomes a program of the cage.
unique_fd receive_fd(int sync) {
    char byte = 0;
    iovec part{.iov_base = &byte, .iov_len = 1};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    pollfd waiting{.fd = sync, .events = POLLIN};
    (void)::poll(&waiting, 1, 10'000);
    if (::recvmsg(sync, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) <= 0) return {};
    const cmsghdr* first = CMSG_FIRSTHDR(&header);
    if (first == nullptr || first->cmsg_type != SCM_RIGHTS || first->cmsg_len != CMSG_LEN(sizeof(int)))
        return {};
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(first), sizeof fd);
    return unique_fd(fd);
}

process process_of(unique_fd pidfd) {
    const std::string info = read_file(fmt::format("/proc/self/fdinfo/{}", pidfd.get()));
    const std::size_t at = info.find("\nPid:\t");
    int pid = 0;
    if (at != std::string::npos) std::from_chars(info.data() + at + 6, info.data() + info.size(), pid);
    return {pid, std::move(pidfd)};
}

// pid 1 of the cage, as the machine numbers it: the process in its cgroup that is 1 in the namespace just below ours.
pid_t find_init(const cgroup& group) {
    std::istringstream pids(group.read("cgroup.procs"));
    for (pid_t pid = 0; pids >> pid;) {
        const std::string path = fmt::format("/proc/{}/status", pid);
        if (::access(path.c_str(), R_OK) != 0) continue;
        const std::string status = read_file(path);
        const std::size_t at = status.find("\nNSpid:\t");
        if (at == std::string::npos) continue;
        const std::string line = status.substr(at + 8, status.find('\n', at + 1) - at - 8);
        if (line == fmt::format("{}\t1", pid)) return pid;
    }
    return 0;
}

// The terminals of a cage that somebody else built; its own /dev/pts, looked up beneath its root, no link followed.
unique_fd open_devpts(pid_t init) {
    const unique_fd root(
        check(::open(fmt::format("/proc/{}/root", init).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC),
              "open the root of a cage"));
    open_how how{};
    how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
    how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    unique_fd found(static_cast<int>(check(::syscall(SYS_openat2, root.get(), "dev/pts", &how, sizeof how),
                                           "open the terminals of a cage")));
    struct statfs seen{};
    check(::fstatfs(found.get(), &seen), "look at the terminals of a cage");
    if (seen.f_type != DEVPTS_SUPER_MAGIC) fail("the cage's /dev/pts is not a devpts");
    return found;
}

} // namespace

std::string cage_name(std::uint64_t id) {
    return fmt::format("{:016x}", id);
}

std::optional<std::uint64_t> parse_cage_name(const std::string& text) {
    std::uint64_t id = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id, 16);
    if (text.size() != 16 || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return id;
}

std::unique_ptr<cage> cage::build(workshop& tools, cage_order order) {
    std::unique_ptr<cage> made(new cage(tools));
    made->id_ = order.id;
    made->id_base_ = order.id_base;
    made->spec_ = order.spec;
    made->steps_ = order.steps;
    for (const step& each : made->steps_) made->do_step(each, order);
    made->hand_mounts_over();
    const auto report = read_report(made->report_.get());
    if (!report)
        throw cage_failure(fmt::format("cage {}: its child ended before it was ready", made->spec_.name),
                           125);
    if (report->act != child_act::ready) fail_child(*report, made->spec_, made->spec_.command);
    return made;
}

std::unique_ptr<cage> cage::adopt(workshop& tools, std::uint64_t id, cage_spec spec, std::vector<step> steps,
                                  std::uint32_t id_base) {
    if (!tools.guard_programs.complete(id))
        fail("adopt cage {}: not all of its guards are pinned", cage_name(id));
    std::unique_ptr<cage> found(new cage(tools));
    found->left_running_ = true; // until it is whole, nothing of it is ended by accident
    found->id_ = id;
    found->id_base_ = id_base;
    found->spec_ = std::move(spec);
    found->steps_ = std::move(steps);
    found->group_ = cgroup::open(tools.cgroups.fd(), cage_name(id));
    const pid_t pid = find_init(found->group_);
    if (pid == 0) fail("adopt cage {}: its first process is gone", cage_name(id));
    unique_fd pidfd = open_pidfd(pid);
    if (!pidfd || find_init(found->group_) != pid)
        fail("adopt cage {}: its first process is ending", cage_name(id));
    found->init_ = process(pid, std::move(pidfd));
    found->devpts_ = open_devpts(pid);
    found->guarded_ = true;
    found->left_running_ = false;
    return found;
}

void cage::do_step(const step& what, cage_order& order) {
    std::visit(
        overloaded{
            [&](const make_cgroup& s) { group_ = cgroup::make(tools_.cgroups.fd(), s.name); },
            [&](const set_limit& s) { group_.write(s.file.c_str(), s.value); },
            [&](const attach_guard& s) {
                guarded_ = true;
                tools_.guard_programs.attach(s.which, group_.fd(), id_);
            },
            [&](const write_policy& s) { tools_.guard_programs.write_policy(group_.fd(), id_, s.mode); },
            [&](const make_network&) { network_ = tools_.networks.make(id_); },
            [&](const struct start_child&) { start_child(order); },
            [&](const struct map_ids& s) {
                map_ids(s);
                open_writable(order);
            },
            [&](const mount_layer& s) { add_layer(s, order); },
            [&](const bind_path& s) {
                if (binds_.size() >= order.sources.size())
                    fail("bind {}: its source was not opened", s.source);
                add_bind(s, std::move(order.sources[binds_.size()]), order.owner);
            },
            [](const auto&) {}, // the child's own
        },
        what);
}

std::span<const sock_filter> cage::filter() const {
    return spec_.mode == cage_mode::caged ? tools_.caged_filter : tools_.sealed_filter;
}

void cage::start_child(cage_order& order) {
    devpts_ = make_devpts(id_base_);
    const child_streams ends = make_streams(spec_.command, devpts_.get(), id_base_, streams_);
    socket_pair sync = make_sync();
    socket_pair report = make_report_pipe();
    work_.steps = steps_;
    for (const step& each : steps_) {
        if (const auto* layer = std::get_if<mount_layer>(&each))
            work_.layer_targets.push_back(without_slash(layer->target));
        if (const auto* bind = std::get_if<bind_path>(&each))
            work_.bind_targets.push_back(without_slash(bind->target));
    }
    for (const unique_fd& source : order.sources) {
        struct stat seen{};
        check(::fstat(source.get(), &seen), "look at a directory of the owner");
        work_.bind_is_file.push_back(!S_ISDIR(seen.st_mode));
    }
    if (work_.bind_is_file.size() != work_.bind_targets.size())
        fail("{} binds, but {} sources", work_.bind_targets.size(), order.sources.size());
    work_.root_place = tools_.places.root();
    work_.files = files_of(spec_);
    work_.filter = filter();
    work_.program = prepare_program(spec_.command, order.program_fd, ends);
    work_.init_fd = tools_.init_program;
    work_.sync = sync.theirs.get();
    work_.report = report.theirs.get();

    const network_visit visit(network_.space.get());
    clone_result child = clone_into(group_.fd(), CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC |
                                                     CLONE_NEWUTS | CLONE_NEWCGROUP);
    if (child.pid == 0) run_child(work_);
    init_ = process(child.pid, std::move(child.pidfd));
    sync_ = std::move(sync.ours);
    report_ = std::move(report.ours);
}

void cage::map_ids(const struct map_ids& what) {
    const unique_fd proc = open_directory(fmt::format("/proc/{}", init_.pid()));
    const std::string map = fmt::format("0 {} {}", what.base, what.count);
    write_file_at(proc.get(), "uid_map", map);
    write_file_at(proc.get(), "gid_map", map);
    user_namespace_ = unique_fd(
        check(::openat(proc.get(), "ns/user", O_RDONLY | O_CLOEXEC), "open the user namespace of the cage"));
}

void cage::open_writable(cage_order& order) {
    if (order.kept) {
        writable_ = std::move(order.kept);
        return;
    }
    writable_mount_ = make_tmpfs(order.throwaway_bytes);
    writable_attached_ = std::make_unique<attachment>(writable_mount_.get(), tools_.places.upper());
    writable_ = unique_fd(
        check(::fcntl(writable_mount_.get(), F_DUPFD_CLOEXEC, 0), "keep what the cage writes"));
}

void cage::add_layer(const mount_layer& what, const cage_order&) {
    const bool durable = !writable_mount_;
    layers_.push_back(make_overlay(tools_.places, what.lower, user_namespace_.get(), writable_.get(),
                                   fmt::format("{}", layers_.size()), id_base_, durable));
}

void cage::add_bind(const bind_path& what, unique_fd source, owner_identity owner) {
    const int shifted = tools_.ids.project_namespace(id_base_, owner.uid, owner.gid);
    binds_.push_back(make_bind(source.get(), shifted, what.writable, what.source));
}

// After this the keeper has no mount of the cage any more: they live and die with the cage's own namespace.
void cage::hand_mounts_over() {
    std::vector<unique_fd> shared;
    shared.push_back(tools_.trees.dev());
    shared.push_back(tools_.trees.sys());
    shared.push_back(tools_.trees.empty());
    std::vector<int> fds;
    fds.reserve(layers_.size() + shared.size() + 1 + binds_.size());
    for (const unique_fd& layer : layers_) fds.push_back(layer.get());
    for (const unique_fd& tree : shared) fds.push_back(tree.get());
    fds.push_back(devpts_.get());
    for (const unique_fd& bind : binds_) fds.push_back(bind.get());
    if (fds.size() > most_child_mounts)
        fail("cage {} has {} mounts, at most {} are possible", spec_.name, fds.size(), most_child_mounts);

    check(send_fds(sync_.get(), fds), "hand the mounts to the child of cage {}", spec_.name);
    layers_.clear();
    binds_.clear();
    writable_attached_.reset();
    writable_.reset();
    writable_mount_.reset();
    user_namespace_.reset();
}

void cage::start() {
    const char go = 1;
    check(::send(sync_.get(), &go, 1, MSG_NOSIGNAL), "start the program of cage {}", spec_.name);
    unique_fd program = receive_fd(sync_.get());
    if (program) program_ = process_of(std::move(program));
    if (const auto report = read_report(report_.get())) fail_child(*report, spec_, spec_.command);
    if (!program_)
        throw cage_failure(fmt::format("cage {}: its child ended before its program ran", spec_.name), 125);
    sync_.reset();
    report_.reset();
}

caged_program cage::enter(const command_spec& command) {
    command_spec copy = command;
    caged_program made;
    const child_streams ends = make_streams(copy, devpts_.get(), id_base_, made.streams);
    socket_pair sync = make_sync();
    socket_pair report = make_report_pipe();
    child_work work;
    work.steps = steps_;
    work.filter = filter();
    work.program = prepare_program(copy, -1, ends);
    work.report = report.theirs.get();

    // Born in the cage's cgroup and so behind its guards; then it joins the namespaces, and its own child, which is
    // the keeper's by CLONE_PARENT, is in the cage's pid namespace. Neither can be traced: the keeper is not dumpable.
    clone_result joiner = clone_into(group_.fd(), 0);
    if (joiner.pid == 0) join_and_run(work, init_.pidfd(), sync.theirs.get());
    process joining(joiner.pid, std::move(joiner.pidfd));
    sync.theirs.reset();
    report.theirs.reset();
    unique_fd program = receive_fd(sync.ours.get());
    if (program) made.held = process_of(std::move(program));
    if (const auto said = read_report(report.ours.get())) fail_child(*said, spec_, copy);
    if (!made.held)
        throw cage_failure(fmt::format("cage {} cannot be entered: it is ending", spec_.name), 125);
    return made;
}

bool cage::destroy() {
    if (group_.fd() >= 0) {
        if (!group_.kill(kill_limit)) {
            spdlog::error("cage {} ({}): a process does not end; its guards stay", spec_.name,
                          cage_name(id_));
            return false;
        }
    }
    (void)init_.reap_within(kill_limit);
    if (guarded_) tools_.guard_programs.detach(id_);
    guarded_ = false;
    tools_.steering_programs.release(id_);
    if (group_.fd() >= 0 && !group_.remove()) return false;
    group_ = cgroup();
    return true;
}

cage::~cage() {
    if (left_running_) {
        init_.let_go();
        program_.let_go();
        return;
    }
    try {
        (void)destroy();
    } catch (const std::exception& error) {
        spdlog::error("end cage {}: {}; what is left is removed at the keeper's next start", cage_name(id_),
                      error.what());
    }
}

} // namespace pinfold
