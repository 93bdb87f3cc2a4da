// Files: what can be read, written, listed, overwritten.
#include "base/unique_fd.hpp"
#include "incage/probe/act.hpp"
#include "incage/probe/endpoint.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <dirent.h>
#include <fcntl.h>
#include <fstream>
#include <memory>
#include <sstream>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <vector>

namespace pinfold::probe {
namespace {

std::vector<std::string> names_in(const char* folder) {
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(folder), &::closedir);
    std::vector<std::string> names;
    if (!stream) return names;
    while (const dirent* entry = ::readdir(stream.get()))
        if (const std::string_view name = entry->d_name; name != "." && name != "..")
            names.emplace_back(name);
    std::ranges::sort(names);
    return names;
}

std::vector<std::string> processes() {
    std::vector<std::string> pids = names_in("/proc");
    std::erase_if(pids, [](const std::string& name) {
        return name.find_first_not_of("0123456789") != std::string::npos;
    });
    return pids;
}

outcome content_of(const std::string& path) {
    const unique_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file) return failed("open");
    std::array<char, 4096> part{};
    const ssize_t got = ::read(file.get(), part.data(), part.size());
    if (got < 0) return failed("read");
    return done(printable({part.data(), static_cast<std::size_t>(got)}));
}

outcome read_file(arguments given) {
    return content_of(std::string(given[0]));
}

outcome write_file(arguments given) {
    const std::string_view text = given.size() > 1 ? given[1] : "x";
    const unique_fd file(
        ::open(std::string(given[0]).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644));
    if (!file) return failed("open");
    return ::write(file.get(), text.data(), text.size()) < 0 ? failed("write") : done();
}

outcome list_folder(arguments given) {
    const std::string path(given[0]);
    const unique_fd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder) return failed("open");
    std::string names;
    for (const std::string& name : names_in(path.c_str()))
        names += (names.empty() ? "" : " ") + printable(name);
    return done(names);
}

outcome stat_file(arguments given) {
    struct stat seen{};
    if (::lstat(std::string(given[0]).c_str(), &seen) != 0) return failed("lstat");
    std::array<char, 16> mode{};
    std::snprintf(mode.data(), mode.size(), "%06o", seen.st_mode);
    return done(
        joined("mode=", mode.data(), " uid=", seen.st_uid, " gid=", seen.st_gid, " size=", seen.st_size));
}

// By the three calls there are; the bit counts as set only where it is seen afterwards.
outcome chmod_suid(arguments given) {
    const std::string path(given[0]);
    constexpr int fchmodat2 = 452;
    constexpr mode_t wanted = S_ISUID | 0755;
    const std::array results{static_cast<long>(::chmod(path.c_str(), wanted)),
                             static_cast<long>(::fchmodat(AT_FDCWD, path.c_str(), wanted, 0)),
                             ::syscall(fchmodat2, AT_FDCWD, path.c_str(), wanted, 0)};
    const int error = errno;
    struct stat seen{};
    if (::stat(path.c_str(), &seen) == 0 && (seen.st_mode & S_ISUID) != 0) return done();
    return refused(std::ranges::all_of(results, [](long each) { return each < 0; }) ? error : EPERM, "chmod");
}

// Whatever program runs here, to be written over: also ours, when it enters.
outcome open_programs(arguments) {
    std::string opened;
    std::string refusals;
    int last = ENOENT;
    for (const std::string& pid : processes()) {
        const unique_fd file(::open(("/proc/" + pid + "/exe").c_str(), O_WRONLY | O_CLOEXEC));
        if (!file) last = errno;
        (file ? opened : refusals) += pid + (file ? " " : "=" + text_of_error(last) + " ");
    }
    return opened.empty() ? refused(last, refusals) : done(opened);
}

// The environment and the command line of everybody, for a canary to be looked for.
outcome environments(arguments) {
    std::string all;
    for (const std::string& pid : processes())
        for (const char* what : {"environ", "cmdline"}) {
            const outcome one = content_of("/proc/" + pid + "/" + what);
            all += joined(pid, "/", what, "=",
                          one.error != 0 ? text_of_error(one.error) : "[" + one.detail + "]", " ");
        }
    return done(all);
}

outcome descriptors(arguments) {
    std::string all;
    for (const std::string& fd : names_in("/proc/self/fd")) {
        std::array<char, 4096> target{};
        if (::readlink(("/proc/self/fd/" + fd).c_str(), target.data(), target.size() - 1) < 0) continue;
        all += joined(all.empty() ? "" : " ", fd, "=", printable(target.data()));
    }
    return done(all);
}

// Opened only; nothing is written.
outcome sysctl_write(arguments) {
    outcome last;
    for (const char* name :
         {"kernel/core_pattern", "kernel/hostname", "vm/drop_caches", "net/ipv4/ip_forward",
          "net/ipv4/conf/all/route_localnet", "kernel/ns_last_pid", "fs/file-max"}) {
        const unique_fd file(::open((std::string("/proc/sys/") + name).c_str(), O_WRONLY | O_CLOEXEC));
        if (file) return done(name);
        last = failed(name);
    }
    return last;
}

// A child cgroup without a policy would be a way out.
outcome cgroup_write(arguments) {
    std::ifstream mounts("/proc/self/mountinfo");
    outcome last = refused(ENOENT, "no cgroup file system is mounted");
    for (std::string line; std::getline(mounts, line);) {
        if (line.find(" - cgroup") == std::string::npos) continue;
        std::istringstream fields(line);
        std::string place;
        for (int i = 0; i < 5; ++i) fields >> place;
        const std::string child = place + "/pinfold-probe";
        if (::mkdir(child.c_str(), 0755) == 0) {
            ::rmdir(child.c_str());
            return done("made " + child);
        }
        last = failed("mkdir " + child);
        const unique_fd members(::open((place + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
        if (members) return done("opened " + place + "/cgroup.procs");
    }
    return last;
}

constexpr act table[] = {
    {"read", "FILE: print its beginning", 1, 1, read_file},
    {"write", "FILE [TEXT]", 1, 2, write_file},
    {"list", "FOLDER", 1, 1, list_folder},
    {"stat", "PATH", 1, 1, stat_file},
    {"chmod-suid", "FILE", 1, 1, chmod_suid},
    {"open-proc-exe", "open every /proc/*/exe to write", 0, 0, open_programs},
    {"environ", "print everybody's environment and command line", 0, 0, environments},
    {"dump-fds", "print /proc/self/fd", 0, 0, descriptors},
    {"sysctl-write", "open some files of /proc/sys to write", 0, 0, sysctl_write},
    {"cgroup-write", "make a child cgroup, or open cgroup.procs to write", 0, 0, cgroup_write},
};

} // namespace

std::span<const act> file_acts() {
    return table;
}

} // namespace pinfold::probe
