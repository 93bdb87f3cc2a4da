// Real cages, built in this process by the product's own code, inside the test world: with a step of the plan left out,
// or with a relay that refuses nothing, where a test must see what a protection is worth.
#pragma once

#include "agent/relay/relay.hpp"
#include "cage/cage.hpp"
#include "keeper/images.hpp"
#include "keeper/routes.hpp"
#include "support/world.hpp"

#include <pinfold/denial.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace pinfold::test {

// What a probe did inside: its exit code (0 = the act succeeded, 1 = it was refused) and what it printed.
struct probed {
    int status = -1;
    std::string output;
    std::string errors;
    std::vector<pinfold_denial> denials;

    [[nodiscard]] bool says(const std::string& text) const { return output.find(text) != std::string::npos; }
};

// How the cage of a probe differs from the one the product would build.
class cage_kind {
public:
    explicit cage_kind(cage_mode mode) : mode_(mode) {}

    // A mutation: this cage has no such step. Without a policy the guard would deny all, so a left-out guard is not attached.
    [[nodiscard]] cage_kind without(guard which) const;
    template <typename Step>
    [[nodiscard]] cage_kind without() const {
        return changed([](std::vector<step>& steps) {
            std::erase_if(steps, [](const step& s) { return std::holds_alternative<Step>(s); });
        });
    }
    [[nodiscard]] cage_kind changed(std::function<void(std::vector<step>&)> change) const;
    // Two walls hide each other: with a relay that allows all, the guards are proven alone.
    [[nodiscard]] cage_kind with_open_relay() const;
    [[nodiscard]] cage_kind with_project(std::filesystem::path project, uid_t owner) const;
    [[nodiscard]] cage_kind with_limits(limits_spec limits) const;
    [[nodiscard]] cage_kind with_bind(bind_spec bind) const; // its source is opened as root
    [[nodiscard]] cage_kind with_kept_files(std::filesystem::path folder, std::uint32_t id_base) const;

private:
    friend class cage_machine;
    cage_mode mode_;
    bool open_relay_ = false;
    std::filesystem::path project_;
    uid_t owner_ = 65534;
    limits_spec limits_;
    std::vector<bind_spec> binds_;
    std::filesystem::path kept_;
    std::uint32_t kept_base_ = 0;
    std::vector<std::function<void(std::vector<step>&)>> changes_;
};
[[nodiscard]] inline cage_kind sealed() {
    return cage_kind(cage_mode::sealed);
}
[[nodiscard]] inline cage_kind caged() {
    return cage_kind(cage_mode::caged);
}

// A cage that runs, with its relay beside it in an unprivileged process.
class running_cage {
public:
    running_cage(const running_cage&) = delete;
    running_cage& operator=(const running_cage&) = delete;
    ~running_cage();

    [[nodiscard]] cage& built() noexcept { return *cage_; }
    [[nodiscard]] const cage& built() const noexcept { return *cage_; }
    // Waits for the first program's end.
    probed finish(std::chrono::seconds limit = std::chrono::seconds(60));
    // One more program inside; waits for its end.
    probed enter(std::vector<std::string> argv, std::chrono::seconds limit = std::chrono::seconds(60));

private:
    friend class cage_machine;
    explicit running_cage(class cage_machine& home) : home_(home) {}

    cage_machine& home_;
    std::unique_ptr<cage> cage_;
    process relay_;
};

// The machine of the test world with what a keeper has: one for a test binary.
class cage_machine {
public:
    static cage_machine& here();
    cage_machine(const cage_machine&) = delete;
    cage_machine& operator=(const cage_machine&) = delete;

    // Runs pinfold-probe with these arguments as the only program of such a cage.
    probed probe(const cage_kind& kind, std::vector<std::string> arguments);
    // Runs a program of the image.
    probed run(const cage_kind& kind, std::vector<std::string> argv);
    // A cage whose first program is this; the probe when `is_probe`.
    std::unique_ptr<running_cage> start(const cage_kind& kind, std::vector<std::string> argv,
                                        bool is_probe = false);
    // The probe with no cage around it, as the owner, in the machine's namespace: it must reach the target then.
    probed bare(const std::vector<std::string>& arguments);

    [[nodiscard]] test::world& net() noexcept { return world_; }
    [[nodiscard]] workshop& tools() noexcept { return tools_; }
    [[nodiscard]] guards& guard_programs() noexcept { return guards_; }
    [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }
    [[nodiscard]] const std::filesystem::path& pins() const noexcept { return pins_; }
    void refresh_routes(); // after a route came or went

private:
    friend class running_cage;
    cage_machine();
    ~cage_machine();
    std::vector<pinfold_denial> denials_of(std::uint64_t id);

    // Removes the folder once nothing is mounted in it any more, so it goes after what is attached there.
    struct folder_end {
        explicit folder_end(const std::filesystem::path& of) : folder(of) {}
        folder_end(const folder_end&) = delete;
        folder_end& operator=(const folder_end&) = delete;
        ~folder_end();
        const std::filesystem::path& folder;
    };

    test::world world_;
    std::filesystem::path folder_;
    folder_end folder_end_{folder_};
    std::filesystem::path pins_;
    cgroup_tree cgroups_;
    cgroup anchor_;
    scratch places_;
    shared_trees trees_;
    guards guards_;
    steering steering_;
    spare_networks networks_;
    id_pool ids_;
    images images_;
    routes routes_;
    unique_fd init_program_;
    unique_fd probe_program_;
    workshop tools_;
    std::vector<pinfold_denial> denials_;
};

} // namespace pinfold::test
