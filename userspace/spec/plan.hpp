// A cage as an ordered list of steps: printed by `pinfold plan`, compared in unit tests, executed by build().
#pragma once

#include "spec/cage_spec.hpp"
#include "spec/guard.hpp"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace pinfold {

// What the machine is, found once and handed in: nothing below asks again.
struct machine_facts {
    std::string kernel;             // uname -r
    bool memory_controller = false; // on cgroup v2, and so for a cage
    bool cpu_controller = false;
    bool pids_controller = false;
    std::vector<std::string>
        unlimited; // the machine's owner accepts that these are absent: "memory", "cpu", "pids"
};

// ---- by the keeper, before any process exists ----
struct make_cgroup {
    std::string name; // the cage's id
    bool operator==(const make_cgroup&) const = default;
};
struct set_limit {
    std::string file; // "memory.max"
    std::string value;
    bool operator==(const set_limit&) const = default;
};
struct attach_guard {
    guard which{};
    bool operator==(const attach_guard&) const = default;
};
struct write_policy {
    cage_mode mode = cage_mode::sealed;
    bool operator==(const write_policy&) const = default;
};
struct make_network { // namespace, tun, listener, steering
    bool operator==(const make_network&) const = default;
};
// ---- by the keeper, once the child exists ----
struct start_child { // clone3 into the cgroup, with namespaces of its own; it waits
    bool operator==(const start_child&) const = default;
};
struct map_ids {
    std::uint32_t base = 0; // root inside is this id outside
    std::uint32_t count = 65536;
    bool operator==(const map_ids&) const = default;
};
struct mount_layer { // overlay: image below, idmapped and read-only; the cage's own upper above
    std::string lower;
    std::string target;
    bool operator==(const mount_layer&) const = default;
};
struct bind_path { // of the owner's, idmapped, nosuid, nodev
    std::string source;
    std::string target;
    bool writable = false;
    bool operator==(const bind_path&) const = default;
};
// ---- by the child itself ----
struct join_keyring { // a session keyring of its own
    bool operator==(const join_keyring&) const = default;
};
struct set_hostname {
    std::string name;
    bool operator==(const set_hostname&) const = default;
};
struct place_root { // attach the layers; what follows is placed beneath them, no link followed
    bool operator==(const place_root&) const = default;
};
struct mount_dev { // null, zero, full, random, urandom, tty; pts, shm, mqueue
    bool operator==(const mount_dev&) const = default;
};
struct mount_proc { // with the kernel's corners masked
    bool masked = true;
    bool operator==(const mount_proc&) const = default;
};
struct mount_sys { // a handful of plain files, read-only: no sysfs
    bool operator==(const mount_sys&) const = default;
};
struct mount_run {
    bool operator==(const mount_run&) const = default;
};
struct place_binds { // each at its target, made where absent
    bool operator==(const place_binds&) const = default;
};
struct pivot { // the machine's tree is out of reach; hosts, hostname and resolv.conf are written
    bool operator==(const pivot&) const = default;
};
struct drop_capabilities {
    bool operator==(const drop_capabilities&) const = default;
};
struct no_new_privileges {
    bool operator==(const no_new_privileges&) const = default;
};
struct filter_syscalls {
    cage_mode mode = cage_mode::sealed;
    bool operator==(const filter_syscalls&) const = default;
};
// ---- and then ----
struct await_relay { // no instruction of the cage runs before the relay serves it
    bool operator==(const await_relay&) const = default;
};
struct run_program { // pid 1 becomes pinfold-init, its child the program
    bool operator==(const run_program&) const = default;
};

using step = std::variant<make_cgroup, set_limit, attach_guard, write_policy, make_network, start_child,
                          map_ids, mount_layer, bind_path, join_keyring, set_hostname, place_root, mount_dev,
                          mount_proc, mount_sys, mount_run, place_binds, pivot, drop_capabilities,
                          no_new_privileges, filter_syscalls, await_relay, run_program>;

// What a cage needs beside the spec: chosen by the keeper, so that plan() is pure.
struct plan_inputs {
    std::string cgroup_name;
    std::uint32_t id_base = 0;
    struct layer {
        std::string lower;
        std::string target;
    };
    std::vector<layer> layers; // of the image, "/" first
};

// The steps in the order that may never change (architecture.md §3).
[[nodiscard]] std::vector<step> plan(const cage_spec& spec, const machine_facts& facts,
                                     const plan_inputs& inputs);

// The limits alone: what set_limits writes into a running cage's cgroup.
[[nodiscard]] std::vector<set_limit> plan_limits(const limits_spec& limits, const machine_facts& facts);

// The controllers a cage needs, the machine lacks and its owner did not accept to lack: no cage while any is named.
[[nodiscard]] std::vector<std::string> missing_controllers(const machine_facts& facts);
// Those it lacks and its owner accepted: said by inspect, doctor and the session.
[[nodiscard]] std::vector<std::string> unenforced_limits(const machine_facts& facts);

// One line for a person.
[[nodiscard]] std::string describe(const step& what);

} // namespace pinfold
