#include "cage/cgroup.hpp"

#include "base/error.hpp"
#include "base/file.hpp"

#include <algorithm>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

namespace pinfold {

namespace {

std::vector<std::string> words(const std::string& line) {
    std::istringstream stream(line);
    std::vector<std::string> result;
    for (std::string word; stream >> word;) result.push_back(std::move(word));
    return result;
}

// Names of the cgroups directly below.
std::vector<std::string> children_of(int directory) {
    std::vector<std::string> names;
    unique_fd copy(
        check(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open a cgroup to list it"));
    std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(copy.get()), &::closedir);
    if (!stream) fail_errno(errno, "list a cgroup");
    (void)copy.release();
    while (const dirent* entry = ::readdir(stream.get())) {
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.') names.emplace_back(entry->d_name);
    }
    return names;
}

// A cage cannot make cgroups, but what was handed the files could have: the whole subtree goes.
bool remove_below(int directory) {
    bool all = true;
    for (const std::string& name : children_of(directory)) {
        const unique_fd child(
            ::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
        all = (!child || remove_below(child.get())) &&
              ::unlinkat(directory, name.c_str(), AT_REMOVEDIR) == 0 && all;
    }
    return all;
}

bool names(const std::string& list, const char* controller) {
    const std::vector<std::string> all = words(list);
    return std::ranges::find(all, controller) != all.end();
}

// The root may hold processes and hand controllers down; it is the one cgroup without this file.
bool is_root(const cgroup& which) {
    return ::faccessat(which.fd(), "cgroup.events", F_OK, 0) != 0;
}

// A cgroup below the root that hands controllers down may hold no process. Asked before the kernel is: it refuses memory
// (EBUSY), but takes cpu and pids, and then no process can be put below (EOPNOTSUPP). A service whose cgroup was given to
// it (systemd's Delegate=) begins in it and steps aside, into a leaf of its own; only where nobody else is in there.
void need_empty(const cgroup& from, const std::string& shown) {
    if (is_root(from)) return;
    const std::string inside = from.read("cgroup.procs");
    if (inside.empty()) return;
    if (inside != fmt::format("{}\n", ::getpid()))
        fail("cgroup {} holds processes, and so may not hand it down: name a cgroup without any as cgroup= "
             "in the "
             "keeper's configuration",
             shown);
    cgroup::make(from.fd(), "keeper").write("cgroup.procs", fmt::format("{}", ::getpid()));
}

// A controller works in a cage only if it is on in each cgroup above, from the root down. Nothing is written where it is on
// already: what is systemd's stays as systemd wants it.
void hand_down(const cgroup& from, const char* controller, const std::string& shown) {
    if (names(from.read("cgroup.subtree_control"), controller)) return;
    if (!names(from.read("cgroup.controllers"), controller))
        fail("cgroup {} does not have it: turn it on in cgroup.subtree_control of the cgroup above", shown);
    need_empty(from, shown);
    from.write("cgroup.subtree_control", fmt::format("+{}", controller));
}

} // namespace

std::optional<std::filesystem::path> find_cgroup2(const std::string& mountinfo) {
    std::istringstream lines(mountinfo);
    for (std::string line; std::getline(lines, line);) {
        const std::vector<std::string> fields = words(line);
        const auto dash = std::ranges::find(fields, "-");
        if (dash == fields.end() || dash + 1 == fields.end() || fields.size() < 6) continue;
        if (*(dash + 1) == "cgroup2" && fields[3] == "/") return fields[4];
    }
    return std::nullopt;
}

cgroup::cgroup(int parent, std::string name, unique_fd directory)
    : parent_(check(::fcntl(parent, F_DUPFD_CLOEXEC, 0), "keep the parent of cgroup {}", name)),
      directory_(std::move(directory)),
      name_(std::move(name)) {}

cgroup cgroup::make(int parent, const std::string& name) {
    if (::mkdirat(parent, name.c_str(), 0755) != 0 && errno != EEXIST)
        fail_errno(errno, "make cgroup {}", name);
    return open(parent, name);
}

cgroup cgroup::open(int parent, const std::string& name) {
    unique_fd directory(check(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW),
                              "open cgroup {}", name));
    return {parent, name, std::move(directory)};
}

bool cgroup::exists(int parent, const std::string& name) {
    return ::faccessat(parent, name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

std::uint64_t cgroup::id() const {
    struct stat seen{};
    check(::fstat(directory_.get(), &seen), "look at cgroup {}", name_);
    return seen.st_ino; // on 64-bit kernels the two are one number
}

void cgroup::write(const char* file, const std::string& value) const {
    write_file_at(directory_.get(), file, value);
}

std::string cgroup::read(const char* file) const {
    return read_file_at(directory_.get(), file);
}

std::optional<std::uint64_t> cgroup::read_number(const char* file) const {
    if (::faccessat(directory_.get(), file, F_OK, 0) != 0) return std::nullopt;
    return parse_number(read(file));
}

std::optional<std::uint64_t> cgroup::read_key(const char* file, const std::string& key) const {
    if (::faccessat(directory_.get(), file, F_OK, 0) != 0) return std::nullopt;
    std::istringstream lines(read(file));
    for (std::string name, value; lines >> name >> value;) {
        if (name == key) return parse_number(value);
    }
    return std::nullopt;
}

bool cgroup::kill(std::chrono::milliseconds limit) const {
    write("cgroup.kill", "1");
    const unique_fd events(
        check(::openat(directory_.get(), "cgroup.events", O_RDONLY | O_CLOEXEC), "open cgroup.events"));
    const auto end = std::chrono::steady_clock::now() + limit;
    while (read_key("cgroup.events", "populated").value_or(0) != 0) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
            end - std::chrono::steady_clock::now());
        if (left.count() <= 0) return false;
        // cgroup.events is read before each poll, so a change in between is not missed; the cap is a second line.
        pollfd waiting{.fd = events.get(), .events = POLLPRI};
        (void)::poll(&waiting, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 20)));
    }
    return true;
}

bool cgroup::remove() {
    if (!remove_below(directory_.get()))
        spdlog::warn("cgroup {}: a cgroup below it could not be removed", name_);
    if (::unlinkat(parent_.get(), name_.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return true;
    spdlog::warn("remove cgroup {}: {}", name_, std::generic_category().message(errno));
    return false;
}

cgroup_tree::cgroup_tree(const std::string& path) {
    const auto mount = find_cgroup2(read_file("/proc/self/mountinfo"));
    if (!mount)
        fail("no cgroup v2 hierarchy is mounted on this machine: mount one (systemd does) and start again");
    mount_ = *mount;
    const unique_fd root = open_directory(mount_);
    std::vector<cgroup> way; // the root, and each cgroup down to the folder
    way.push_back(cgroup::open(root.get(), "."));
    const std::vector<std::string> offered = words(way.front().read("cgroup.controllers"));
    for (const std::filesystem::path& name : std::filesystem::path(path))
        way.push_back(cgroup::make(way.back().fd(), name));
    for (const char* controller : {"memory", "cpu", "pids"}) {
        if (std::ranges::find(offered, controller) == offered.end()) continue;
        try {
            std::string shown = "/";
            for (const cgroup& each : way) {
                if (&each != &way.front()) shown += (shown == "/" ? "" : "/") + each.name();
                hand_down(each, controller, shown);
            }
            controllers_.emplace_back(controller);
        } catch (const std::exception& error) {
            spdlog::warn("controller {} cannot be used for cages: {}", controller, error.what());
        }
    }
    folder_ = std::move(way.back());
}

bool cgroup_tree::has(const std::string& controller) const {
    return std::ranges::find(controllers_, controller) != controllers_.end();
}

std::vector<std::string> cgroup_tree::children() const {
    return children_of(folder_.fd());
}

} // namespace pinfold
