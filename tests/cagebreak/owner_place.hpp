// What tests of a cage's files need on the machine: folders of an owner, and mounts that only this test sees.
#pragma once

#include "base/error.hpp"
#include "base/file.hpp"
#include "cagebreak/cage_machine.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace pinfold::test {

// A folder of somebody on the machine, for a cage to work in; gone with this object.
class owner_place {
public:
    explicit owner_place(uid_t owner = 1000, mode_t mode = 0755) : owner_(owner) {
        std::string path = cage_machine::here().folder() / "place-XXXXXX";
        if (::mkdtemp(path.data()) == nullptr) fail_errno(errno, "make a folder for a test");
        path_ = path;
        check(::chmod(path.c_str(), mode), "set the mode of {}", path);
        check(::chown(path.c_str(), owner, owner), "give away {}", path);
    }
    owner_place(const owner_place&) = delete;
    owner_place& operator=(const owner_place&) = delete;
    ~owner_place() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
    [[nodiscard]] uid_t owner() const noexcept { return owner_; }

    std::filesystem::path folder(const std::string& name, mode_t mode = 0755) const {
        const std::filesystem::path made = path_ / name;
        std::filesystem::create_directories(made);
        return give(made, mode);
    }
    std::filesystem::path file(const std::string& name, const std::string& text, mode_t mode = 0644) const {
        const std::filesystem::path made = path_ / name;
        std::filesystem::create_directories(made.parent_path());
        std::ofstream(made) << text;
        return give(made, mode);
    }
    // The probe, for programs that enter: what the keeper starts there is always a program of the cage's own.
    std::filesystem::path probe() const {
        const std::filesystem::path made = path_ / "probe";
        std::filesystem::copy_file(PINFOLD_LIBEXEC_DIR "/pinfold-probe", made);
        return give(made, 0755);
    }

private:
    std::filesystem::path give(const std::filesystem::path& made, mode_t mode) const {
        check(::chmod(made.c_str(), mode), "set the mode of {}", made.native());
        check(::chown(made.c_str(), owner_, owner_), "give away {}", made.native());
        return made;
    }

    std::filesystem::path path_;
    uid_t owner_;
};

// A folder over another, in the mount namespace of the tests: the machine itself keeps what it has.
class planted_mount {
public:
    planted_mount(const std::filesystem::path& from, std::string over) : over_(std::move(over)) {
        check(::mount(from.c_str(), over_.c_str(), nullptr, MS_BIND, nullptr), "bind {} over {}",
              from.native(), over_);
    }
    planted_mount(const planted_mount&) = delete;
    planted_mount& operator=(const planted_mount&) = delete;
    ~planted_mount() { (void)::umount2(over_.c_str(), MNT_DETACH); }

private:
    std::string over_;
};

inline std::vector<std::string> shell(std::string script) {
    return {"/bin/sh", "-c", std::move(script)};
}

inline std::vector<std::string> python(std::string script) {
    return {"/usr/bin/python3", "-c", std::move(script)};
}

inline std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream from(text);
    for (std::string line; std::getline(from, line);) lines.push_back(line);
    return lines;
}

inline std::string text_of(const std::filesystem::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

inline struct stat status_of(const std::filesystem::path& path) {
    struct stat seen{};
    check(::lstat(path.c_str(), &seen), "look at {}", path.native());
    return seen;
}

// The cage's processes, as the machine numbers them.
inline std::vector<pid_t> processes_of(running_cage& cage) {
    std::vector<pid_t> pids;
    std::istringstream from(cage.built().group().read("cgroup.procs"));
    for (pid_t pid = 0; from >> pid;) pids.push_back(pid);
    return pids;
}

// A line of /proc/PID/status.
inline std::string status_line(pid_t pid, const std::string& name) {
    for (const std::string& line : lines_of(text_of("/proc/" + std::to_string(pid) + "/status"))) {
        if (line.starts_with(name + ":")) return line.substr(name.size() + 2);
    }
    return {};
}

} // namespace pinfold::test
