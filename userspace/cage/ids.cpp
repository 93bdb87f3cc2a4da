#include "cage/ids.hpp"

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/process.hpp"

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <linux/sched.h>
#include <sys/syscall.h>

namespace pinfold {

namespace {

constexpr std::size_t most_kept_namespaces = 64;

// A child with a user namespace of its own that does nothing until it is killed.
process start_holder() {
    int pidfd = -1;
    clone_args args{};
    args.flags = CLONE_NEWUSER | CLONE_PIDFD;
    args.pidfd = reinterpret_cast<std::uintptr_t>(&pidfd);
    args.exit_signal = SIGCHLD;
    const long pid = check(::syscall(SYS_clone3, &args, sizeof args),
                           "make a user namespace (see user.max_user_namespaces)");
    if (pid == 0) {
        for (;;) ::pause();
    }
    return {static_cast<pid_t>(pid), unique_fd(pidfd)};
}

} // namespace

unique_fd make_user_namespace(const std::string& uid_map, const std::string& gid_map) {
    const process holder = start_holder();
    const unique_fd proc = open_directory(fmt::format("/proc/{}", holder.pid()));
    write_file_at(proc.get(), "uid_map", uid_map);
    write_file_at(proc.get(), "gid_map", gid_map);
    return unique_fd(check(::openat(proc.get(), "ns/user", O_RDONLY | O_CLOEXEC), "open a user namespace"));
}

id_pool::id_pool(std::uint32_t first, std::uint32_t last) : first_(first), last_(last), next_(first) {
    if (first % ids_per_cage != 0 || last < first || last - first < ids_per_cage - 1)
        fail("the pool of ids {}-{} must begin at a multiple of 65536 and hold 65536 at least", first, last);
}

std::uint32_t id_pool::take() {
    if (!free_.empty()) {
        const std::uint32_t base = free_.back();
        free_.pop_back();
        used_.insert(base);
        return base;
    }
    while (next_ <= last_ - (ids_per_cage - 1) && used_.contains(next_)) next_ += ids_per_cage;
    if (next_ > last_ - (ids_per_cage - 1))
        fail("all {} id ranges for cages are in use: remove cages that are kept", used_.size());
    used_.insert(next_);
    const std::uint32_t base = next_;
    next_ += ids_per_cage;
    return base;
}

void id_pool::reserve(std::uint32_t base) {
    if (base < first_ || base > last_ - (ids_per_cage - 1) || base % ids_per_cage != 0)
        fail("the id range {} is not of the pool {}-{}", base, first_, last_);
    if (!used_.insert(base).second) fail("the id range {} belongs to two cages", base);
    std::erase(free_, base);
}

void id_pool::give_back(std::uint32_t base) {
    if (used_.erase(base) != 0) free_.push_back(base);
}

int id_pool::project_namespace(std::uint32_t base, uid_t uid, gid_t gid) {
    const auto found = projects_.find({base, uid, gid});
    if (found != projects_.end()) return found->second.get();
    if (projects_.size() >= most_kept_namespaces) projects_.erase(projects_.begin());
    unique_fd made = make_user_namespace(fmt::format("{} {} 1", uid, base),
                                         fmt::format("{} {} 1", gid, base));
    return projects_.emplace(key{base, uid, gid}, std::move(made)).first->second.get();
}

} // namespace pinfold
