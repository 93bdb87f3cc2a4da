// A real keeper as a process of the test: started with an empty environment, asked over its socket, killed at will.
#pragma once

#include "base/process.hpp"
#include "cage/cgroup.hpp"
#include "wire/channel.hpp"

#include <deque>
#include <filesystem>
#include <string>
#include <vector>

namespace pinfold::test {

// One connection to a keeper, as an agent has it.
class keeper_link {
public:
    explicit keeper_link(const std::filesystem::path& socket);

    void send(wire::body body);
    // The answer to what was sent last; what comes unasked meanwhile is kept. Throws when the keeper hangs up.
    wire::message answer();
    wire::message ask(wire::body body) {
        send(std::move(body));
        return answer();
    }
    [[nodiscard]] bool readable() const; // something has come
    // The end of a program of a cage; 0 = its first.
    wire::ended end_of(std::uint64_t cage, std::uint32_t process = 0);

private:
    wire::message take();

    wire::channel channel_;
    std::uint32_t number_ = 0;
    std::deque<wire::message> unasked_;
};

// Directories, cgroup and pins of keepers that come one after the other.
class keeper_home {
public:
    keeper_home();
    keeper_home(const keeper_home&) = delete;
    keeper_home& operator=(const keeper_home&) = delete;
    ~keeper_home();

    [[nodiscard]] process start(); // and waits until it serves; throws with its last words
    [[nodiscard]] std::filesystem::path socket() const { return folder_ / "run/keeper.sock"; }
    [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }
    [[nodiscard]] std::string log() const;
    // What there is of cages: cgroups, pins, records and kept files, one line each; sorted.
    [[nodiscard]] std::vector<std::string> traces() const;
    [[nodiscard]] std::filesystem::path cgroup_folder() const { return cgroup_mount_ / name_; }

private:
    std::string name_;
    std::filesystem::path folder_;
    std::filesystem::path pins_;
    std::filesystem::path cgroup_mount_;
};

[[nodiscard]] cage_spec sleeping_spec(const std::string& name);

} // namespace pinfold::test
