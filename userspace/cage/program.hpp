// A command made ready for a child that must not allocate: candidates, argument arrays, pipes or a terminal.
#pragma once

#include "cage/cage.hpp"

namespace pinfold {

// The child's side of the standard streams; the agent's side goes into `agent`.
struct child_streams {
    unique_fd ends[3];
};
[[nodiscard]] child_streams make_streams(const command_spec& command, int devpts, std::uint32_t id_base,
                                         standard_streams& agent);

// Points into `command`, which must outlive it.
[[nodiscard]] program_work prepare_program(command_spec& command, int program_fd,
                                           const child_streams& streams);

// What the child said on its pipe: nothing at its end of file, which says that every exec is done.
// Waits at most ten seconds; everything but a known act and a plausible errno is refused as garbage.
[[nodiscard]] std::optional<child_report> read_report(int pipe);

// The message of a failed child, with what it is about ("run the program npm").
[[noreturn]] void fail_child(const child_report& report, const cage_spec& spec, const command_spec& command);

} // namespace pinfold
