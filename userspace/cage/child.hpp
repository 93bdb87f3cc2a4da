// The child between clone3 and exec: it walks its part of the plan with raw system calls. Nothing here allocates,
// throws or logs; what fails is reported as eight bytes on a pipe.
#pragma once

#include "spec/plan.hpp"

#include <cstdint>
#include <linux/filter.h>
#include <span>
#include <string>
#include <vector>

namespace pinfold {

// What the child says when something fails. The keeper takes these bytes as hostile: both ranges are checked.
enum class child_act : std::uint32_t {
    ready, // no failure: every step is done, only the relay is awaited
    receive_mounts,
    become_root,
    join_keyring,
    set_hostname,
    place_root,
    place_layer,
    mount_proc,
    mask_proc,
    mount_sys,
    mount_dev,
    mount_run,
    place_bind,
    write_files,
    pivot,
    drop_capabilities,
    no_new_privileges,
    filter_syscalls,
    await_relay,
    fork_program,
    run_init,
    enter_terminal,
    enter_directory,
    join_namespaces,
    run_program, // last
};

struct child_report {
    child_act act{};
    std::uint32_t error = 0; // errno
};
static_assert(sizeof(child_report) == 8);

// "pivot into the image" and the like, for the message of a failure.
[[nodiscard]] const char* to_string(child_act act) noexcept;

// A small file inside the cage, written anew at each start.
struct cage_file {
    std::string path; // relative to the cage's root
    std::string text;
};

// Which program, and what it is given; every string is ready before the clone.
struct program_work {
    std::vector<std::string> candidates; // full paths, in the order of PATH; the first that is there is run
    int program_fd = -1;                 // or a program of ours, held by the keeper
    std::vector<char*> argv;             // null-terminated, pointing into the command
    std::vector<char*> environment;
    std::string directory;
    int standard[3] = {-1, -1, -1};
    bool terminal = false;
};

struct child_work {
    std::span<const step> steps;           // the whole plan; the child does those that are its own
    std::vector<std::string> bind_targets; // relative to the root, in the order of the mounts that are sent
    std::vector<bool> bind_is_file;
    std::vector<std::string> layer_targets; // "" = the root itself
    std::string root_place;                 // where the root is attached before the pivot, outside
    std::vector<cage_file> files;
    std::span<const sock_filter> filter;
    program_work program;
    int init_fd = -1; // pinfold-init
    int sync = -1;    // a SOCK_SEQPACKET end: mounts and the start come in, the program's pidfd goes out
    int report =
        -1; // a close-on-exec pipe: failures and `ready`; its end of file says that both execs are done
};

// The order in which the mounts are sent: the layers, dev, sys, empty, devpts, then the binds. At most this many.
inline constexpr std::size_t most_child_mounts = 96;

[[noreturn]] void run_child(const child_work& work) noexcept;

// The same for a program that enters a running cage: this process joins the namespaces of `init`, and its child, a
// sibling by CLONE_PARENT whose pidfd goes out on `sync`, becomes the program.
[[noreturn]] void join_and_run(const child_work& work, int init_pidfd, int sync) noexcept;

} // namespace pinfold
