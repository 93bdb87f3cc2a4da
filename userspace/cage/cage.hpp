// One cage: built step by step from a plan, entered, ended. Its parts die in an order that never leaves a living
// process without its guards.
#pragma once

#include "base/process.hpp"
#include "base/unique_fd.hpp"
#include "cage/cgroup.hpp"
#include "cage/child.hpp"
#include "cage/guards.hpp"
#include "cage/ids.hpp"
#include "cage/mounts.hpp"
#include "cage/network.hpp"
#include "spec/plan.hpp"

#include <chrono>
#include <linux/filter.h>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace pinfold {

// What every build uses, made once by the keeper.
struct workshop {
    cgroup_tree& cgroups;
    guards& guard_programs;
    steering& steering_programs;
    spare_networks& networks;
    const scratch& places;
    const shared_trees& trees;
    id_pool& ids;
    std::vector<sock_filter> sealed_filter;
    std::vector<sock_filter> caged_filter;
    int init_program = -1; // sealed memfds: no program of the machine can be overwritten from inside
};

struct owner_identity {
    uid_t uid = 65534;
    gid_t gid = 65534;
};

// One cage to be built. The plan says what is done; this says with which objects.
struct cage_order {
    std::uint64_t id = 0;
    cage_spec spec;
    std::vector<step> steps;
    std::vector<unique_fd> sources; // of each bind_path in order, O_PATH, opened with the owner's credentials
    owner_identity owner;
    std::uint32_t id_base = 0;
    unique_fd kept;                    // a directory for what the cage writes; a tmpfs where there is none
    std::uint64_t throwaway_bytes = 0; // cap of that tmpfs; 0 = the memory limit alone
    int program_fd = -1;               // a program of ours instead of argv[0]
};

// The ends that belong to the agent.
struct standard_streams {
    unique_fd input;
    unique_fd output;
    unique_fd errors;
    unique_fd terminal; // or only this: the master of a pty
};

// The first program, or one that entered later.
struct caged_program {
    process held;
    standard_streams streams;
};

// Why a cage was not built or a program not started: said once, with the exit code that `pinfold run` gives.
class cage_failure : public std::runtime_error {
public:
    cage_failure(const std::string& text, int exit_code) : std::runtime_error(text), exit_code_(exit_code) {}
    [[nodiscard]] int exit_code() const noexcept { return exit_code_; }

private:
    int exit_code_;
};

class cage {
public:
    // Does the plan up to await_relay. On failure nothing is left, and the exception names the step and the object.
    static std::unique_ptr<cage> build(workshop& tools, cage_order order);
    // Takes over a cage that an earlier keeper made; throws where it is not whole.
    static std::unique_ptr<cage> adopt(workshop& tools, std::uint64_t id, cage_spec spec,
                                       std::vector<step> steps, std::uint32_t id_base);
    cage(const cage&) = delete;
    cage& operator=(const cage&) = delete;
    ~cage(); // destroy(), unless leave_running() was said

    // Lets the first instruction run, and waits until the program has been executed. Throws cage_failure.
    void start();
    // One more program inside. Throws cage_failure.
    caged_program enter(const command_spec& command);

    // Kills everything inside, waits until it is gone, and only then takes the guards away. False while something is
    // still there: the guards stay.
    bool destroy();
    // The keeper ends, the cage goes on: its guards are pinned.
    void leave_running() noexcept { left_running_ = true; }

    [[nodiscard]] cage_network& network() noexcept {
        return network_;
    } // tun and listener are taken out of it
    [[nodiscard]] standard_streams& streams() noexcept { return streams_; }
    [[nodiscard]] process& init() noexcept { return init_; }
    [[nodiscard]] const process& program() const noexcept {
        return program_;
    } // to be signalled; it is init's child
    [[nodiscard]] const cgroup& group() const noexcept { return group_; }
    [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
    [[nodiscard]] std::uint32_t id_base() const noexcept { return id_base_; }
    [[nodiscard]] const cage_spec& spec() const noexcept { return spec_; }
    [[nodiscard]] cage_spec& spec() noexcept { return spec_; }

private:
    explicit cage(workshop& tools) : tools_(tools) {}

    void do_step(const step& what, cage_order& order);
    void start_child(cage_order& order);
    void map_ids(const struct map_ids& what);
    void add_layer(const mount_layer& what, const cage_order& order);
    void add_bind(const bind_path& what, unique_fd source, owner_identity owner);
    void open_writable(cage_order& order);
    void hand_mounts_over();
    [[nodiscard]] std::span<const sock_filter> filter() const;

    workshop& tools_;
    std::uint64_t id_ = 0;
    std::uint32_t id_base_ = 0;
    cage_spec spec_;
    std::vector<step> steps_;
    bool left_running_ = false;

    cgroup group_;
    bool guarded_ = false;
    cage_network network_;
    unique_fd devpts_;
    standard_streams streams_;
    unique_fd user_namespace_;
    unique_fd writable_mount_;
    unique_fd writable_;
    std::unique_ptr<attachment> writable_attached_;
    std::vector<unique_fd> layers_;
    std::vector<unique_fd> binds_;
    child_work work_;
    unique_fd sync_;
    unique_fd report_;
    process init_;
    process program_;
};

// The text of a cage's id, as its cgroup, its pins and its files are named: 16 hexadecimal digits.
[[nodiscard]] std::string cage_name(std::uint64_t id);
[[nodiscard]] std::optional<std::uint64_t> parse_cage_name(const std::string& text);

} // namespace pinfold
