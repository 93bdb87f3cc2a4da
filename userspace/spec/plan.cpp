#include "spec/plan.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>
#include <utility>

namespace pinfold {

namespace {

constexpr std::uint64_t cpu_period_us = 100'000;

template <typename... Cases>
struct overloaded : Cases... {
    using Cases::operator()...;
};

struct controller {
    const char* name;
    bool present;
};

std::vector<controller> controllers(const machine_facts& facts) {
    return {
        {"memory", facts.memory_controller}, {"cpu", facts.cpu_controller}, {"pids", facts.pids_controller}};
}

bool accepted(const machine_facts& facts, std::string_view name) {
    return std::ranges::find(facts.unlimited, name) != facts.unlimited.end();
}

std::vector<std::string> absent_controllers(const machine_facts& facts, bool if_accepted) {
    std::vector<std::string> names;
    for (const auto& [name, present] : controllers(facts)) {
        if (!present && accepted(facts, name) == if_accepted) names.emplace_back(name);
    }
    return names;
}

} // namespace

std::vector<std::string> missing_controllers(const machine_facts& facts) {
    return absent_controllers(facts, false);
}

std::vector<std::string> unenforced_limits(const machine_facts& facts) {
    return absent_controllers(facts, true);
}

std::vector<set_limit> plan_limits(const limits_spec& limits, const machine_facts& facts) {
    std::vector<set_limit> steps;
    if (facts.memory_controller) {
        steps.push_back({"memory.max", fmt::format("{}", limits.memory_bytes)});
        steps.push_back({"memory.swap.max", fmt::format("{}", limits.swap_bytes)});
    }
    if (facts.cpu_controller)
        steps.push_back(
            {"cpu.max", fmt::format("{} {}", limits.cpu_percent * cpu_period_us / 100, cpu_period_us)});
    if (facts.pids_controller) steps.push_back({"pids.max", fmt::format("{}", limits.processes)});
    return steps;
}

std::vector<step> plan(const cage_spec& spec, const machine_facts& facts, const plan_inputs& inputs) {
    std::vector<step> steps;
    steps.emplace_back(make_cgroup{inputs.cgroup_name});
    for (set_limit& limit : plan_limits(spec.limits, facts)) steps.emplace_back(std::move(limit));
    for (const guard which : all_guards) steps.emplace_back(attach_guard{which});
    steps.emplace_back(write_policy{spec.mode});
    steps.emplace_back(make_network{});
    steps.emplace_back(start_child{});
    steps.emplace_back(map_ids{.base = inputs.id_base});
    for (const auto& [lower, target] : inputs.layers) steps.emplace_back(mount_layer{lower, target});
    if (!spec.project.empty()) steps.emplace_back(bind_path{spec.project, spec.project, true});
    for (const bind_spec& bind : spec.binds)
        steps.emplace_back(bind_path{bind.source, bind.target, bind.writable});
    steps.emplace_back(join_keyring{});
    steps.emplace_back(set_hostname{spec.name});
    steps.emplace_back(place_root{});
    steps.emplace_back(mount_dev{});
    steps.emplace_back(mount_proc{});
    steps.emplace_back(mount_sys{});
    steps.emplace_back(mount_run{});
    steps.emplace_back(place_binds{});
    steps.emplace_back(pivot{});
    steps.emplace_back(drop_capabilities{});
    steps.emplace_back(no_new_privileges{});
    steps.emplace_back(filter_syscalls{spec.mode});
    steps.emplace_back(await_relay{});
    steps.emplace_back(run_program{});
    return steps;
}

std::string describe(const step& what) {
    return std::visit(
        overloaded{
            [](const make_cgroup& s) { return fmt::format("make cgroup {}", s.name); },
            [](const set_limit& s) { return fmt::format("set limit {} = {}", s.file, s.value); },
            [](const attach_guard& s) { return fmt::format("attach and pin guard {}", to_string(s.which)); },
            [](const write_policy& s) { return fmt::format("write policy {}", to_string(s.mode)); },
            [](const make_network&) {
                return std::string("make network namespace: lo, tun, steering to the relay");
            },
            [](const start_child&) { return std::string("clone the child into the cgroup"); },
            [](const map_ids& s) {
                return fmt::format("map ids 0-{} to {}-{}", s.count - 1, s.base, s.base + s.count - 1);
            },
            [](const mount_layer& s) { return fmt::format("overlay {} at {}", s.lower, s.target); },
            [](const bind_path& s) {
                return fmt::format("bind {} at {} ({}, nosuid, nodev)", s.source, s.target,
                                   s.writable ? "rw" : "ro");
            },
            [](const join_keyring&) { return std::string("join a session keyring of its own"); },
            [](const set_hostname& s) { return fmt::format("set hostname {}", s.name); },
            [](const place_root&) { return std::string("place the image's layers"); },
            [](const place_binds&) { return std::string("place the binds beneath them"); },
            [](const pivot&) { return std::string("pivot_root into the image"); },
            [](const mount_proc& s) { return std::string(s.masked ? "mount /proc, masked" : "mount /proc"); },
            [](const mount_sys&) { return std::string("mount a minimal read-only /sys"); },
            [](const mount_dev&) { return std::string("mount /dev, /dev/pts, /dev/shm, /dev/mqueue"); },
            [](const mount_run&) { return std::string("mount /run"); },
            [](const drop_capabilities&) { return std::string("drop capabilities"); },
            [](const no_new_privileges&) { return std::string("set no_new_privs"); },
            [](const filter_syscalls& s) {
                return fmt::format("filter system calls ({})", to_string(s.mode));
            },
            [](const await_relay&) { return std::string("wait until the relay serves the cage"); },
            [](const run_program&) { return std::string("exec pinfold-init as pid 1 and the program"); },
        },
        what);
}

} // namespace pinfold
