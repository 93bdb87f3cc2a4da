// What keeper and agent say to each other: one struct for each message, one SOCK_SEQPACKET datagram each.
#pragma once

#include "base/unique_fd.hpp"
#include "spec/cage_spec.hpp"

#include <array>
#include <cstdint>
#include <pinfold/denial.h>
#include <string>
#include <variant>
#include <vector>

namespace pinfold::wire {

inline constexpr std::uint32_t version = 2;
inline constexpr std::size_t largest_message = 128 * 1024; // bytes; a longer command line is refused
inline constexpr std::size_t most_fds = 8;

// ---- agent to keeper; each is answered by exactly one reply that carries its number ----

struct hello { // first on every connection
    std::uint32_t version = 0;
    bool denials = false; // send this connection the denials of the owner's cages
};
struct
    make { // build a cage up to the point where only the relay and the first instruction are missing -> made
    cage_spec spec;
};
struct start { // the relay serves it: let the first instruction run -> ok
    std::uint64_t cage = 0;
};
struct exec { // one more program in a running cage -> entered
    std::uint64_t cage = 0;
    command_spec command;
};
struct signal_process { // to a program this connection started (its process number) -> ok
    std::uint64_t cage = 0;
    std::uint32_t process = 0; // 0 = the cage's first program
    std::uint32_t signal = 0;
};
struct set_limits { // -> ok
    std::uint64_t cage = 0;
    limits_spec limits;
};
struct list {};      // the owner's cages and kept files (root: everybody's) -> cages
struct remove_cage { // end it and delete its files -> ok
    std::string name;
};
struct plan_request { // what make would do -> plan
    cage_spec spec;
};
struct probe { // a scratch cage that runs the built-in doctor probe -> made, then start; ends by itself
    cage_mode mode = cage_mode::sealed;
    std::uint32_t rows = 0; // reserved
};
struct facts_request {}; // what this machine offers -> facts
struct claim {           // after a keeper's death: this agent still serves that adopted cage -> ok
    std::uint64_t cage = 0;
};
struct explain {                        // what the guards answer to a destination -> explained
    std::uint64_t cage = 0;             // 0 = any cage of this mode
    cage_mode mode = cage_mode::sealed; // of a cage its own policy counts, whatever this says
    std::uint32_t family = 0;           // AF_INET, AF_INET6
    std::uint32_t protocol = 0;         // IPPROTO_TCP, …
    std::uint32_t port = 0;             // host byte order
    std::array<std::uint8_t, 16> address{};
};

// ---- keeper to agent ----

struct ok {};
struct failed {
    std::string text; // attempt, object, reason, what to do
    std::uint32_t exit_code =
        125; // what `pinfold run` ends with: 126 and 127 as a shell says them of a program
};
struct made { // fds: tun, listener, then stdin, stdout, stderr (the agent's ends) or the pty's master
    std::uint64_t cage = 0;
    bool terminal = false;
    std::vector<std::string> notes; // what is weaker than asked, said by inspect ("limits: not enforced: …")
};
struct entered { // fds: stdin, stdout, stderr or the pty's master
    std::uint32_t process = 0;
    bool terminal = false;
};
struct cage_state {
    std::uint64_t cage = 0;
    std::string name;
    std::uint32_t owner = 0; // uid
    cage_mode mode = cage_mode::sealed;
    std::string state; // "building", "running", "kept" (files only)
    std::string project;
    std::string image;
    limits_spec limits;
    std::uint32_t first_pid = 0;    // in the machine's pid namespace; 0 when not running
    std::uint32_t id_base = 0;      // root inside is this id outside
    std::uint64_t started_unix = 0; // seconds
    std::uint64_t memory_bytes = 0; // now; 0 when not known
    std::uint32_t processes = 0;
    bool adopted = false; // taken over from a keeper that died
    std::vector<std::string> notes;
};
struct cages {
    std::vector<cage_state> list;
};
struct plan_text {
    std::vector<std::string> steps; // one line each, in order
};
struct fact {
    std::string name;  // "kernel", "cgroup2", "controller memory", "guard destinations", …
    std::string value; // "6.1.0-57-amd64", "/sys/fs/cgroup", "missing", …
    bool good = false; // false = something a cage needs or promises is missing
};
struct facts {
    std::vector<fact> list;
};
struct explained {
    std::uint32_t mode = 0;          // enum pinfold_mode, as the cage's guards read it now
    std::uint32_t rule = 0;          // enum pinfold_rule, 0 = they let it pass
    bool guarded = false;            // every guard of the cage is attached and pinned
    std::uint32_t prefix_family = 0; // of the prefix of the machine's that refused it; 0 = none did
    std::uint32_t prefix_length = 0;
    std::array<std::uint8_t, 16> prefix{};
};

// ---- keeper to agent, unasked (number 0) ----

struct ended { // a program ended; process 0 is the cage's first, and with it the cage
    std::uint64_t cage = 0;
    std::uint32_t process = 0;
    std::int32_t status = 0; // 0 to 255, 128 + signal
    bool memory_kill = false;
    std::uint64_t memory_peak = 0;  // bytes, where known
    std::uint64_t memory_limit = 0; // bytes
    std::uint32_t memory_kills = 0; // processes of the cage that were killed at it and not told yet
    std::string memory_victim;      // the name of the last, where known
};
struct denials {
    std::vector<pinfold_denial> list;
    std::uint64_t lost = 0; // since the keeper started
};

// What is new comes last: records on disk are numbered by this list too.
using body = std::variant<hello, make, start, exec, signal_process, set_limits, list, remove_cage,
                          plan_request, probe, facts_request, ok, failed, made, entered, cages, plan_text,
                          facts, ended, denials, claim, explain, explained>;

struct message {
    std::uint32_t number = 0; // of the request; 0 = unasked
    wire::body body;
    std::vector<unique_fd> fds;
};

} // namespace pinfold::wire
