// cgroup v2: where it is mounted, pinfold's own folder in it, and one cgroup for each cage.
#pragma once

#include "base/unique_fd.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace pinfold {

// The mount point of cgroup v2, from the text of /proc/self/mountinfo; hybrid machines mount it elsewhere than
// /sys/fs/cgroup. Nothing where there is none, or only a part of the hierarchy is shown.
[[nodiscard]] std::optional<std::filesystem::path> find_cgroup2(const std::string& mountinfo);

class cgroup {
public:
    cgroup() noexcept = default;
    // Makes `name` below the folder `parent`, or opens the one that is there. Throws std::system_error.
    static cgroup make(int parent, const std::string& name);
    static cgroup open(int parent, const std::string& name);
    [[nodiscard]] static bool exists(int parent, const std::string& name);

    cgroup(cgroup&&) noexcept = default;
    cgroup& operator=(cgroup&&) noexcept = default;
    cgroup(const cgroup&) = delete;
    cgroup& operator=(const cgroup&) = delete;
    ~cgroup() = default;

    [[nodiscard]] int fd() const noexcept { return directory_.get(); }
    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    [[nodiscard]] std::uint64_t id() const; // as the kernel numbers it, and guards see it

    void write(const char* file, const std::string& value) const;
    [[nodiscard]] std::string read(const char* file) const; // throws where it is not there
    [[nodiscard]] std::optional<std::uint64_t> read_number(
        const char* file) const; // nothing where it is not there
    // The value of `key` in a flat keyed file such as memory.events.
    [[nodiscard]] std::optional<std::uint64_t> read_key(const char* file, const std::string& key) const;

    // Kills everything in it and below, and waits until nobody is left. False when someone still is after `limit`
    // (a process stuck in the kernel).
    [[nodiscard]] bool kill(std::chrono::milliseconds limit) const;
    // Removes it and the cgroups below it; they must be empty. False when it could not be removed.
    bool remove();

private:
    cgroup(int parent, std::string name, unique_fd directory);

    unique_fd parent_;
    unique_fd directory_;
    std::string name_;
};

// pinfold's own folder in the hierarchy: the cages' parent. The controllers memory, cpu and pids are turned on in each
// cgroup from the root down to it, where the kernel lets that be; has() tells which could be.
class cgroup_tree {
public:
    // `path` is relative to the root: "pinfold", or "system.slice/pinfold-keeper.service/cages" for a service that was
    // given its cgroup (Delegate=). Folders are made where absent. Throws with what is missing where there is no cgroup v2.
    explicit cgroup_tree(const std::string& path);

    [[nodiscard]] int fd() const noexcept { return folder_.fd(); }
    [[nodiscard]] const std::filesystem::path& mount() const noexcept { return mount_; }
    [[nodiscard]] bool has(const std::string& controller) const;
    [[nodiscard]] std::vector<std::string> children() const;

private:
    std::filesystem::path mount_;
    cgroup folder_;
    std::vector<std::string> controllers_;
};

} // namespace pinfold
