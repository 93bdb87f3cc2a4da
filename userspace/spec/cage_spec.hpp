// What is wanted of a cage. Every default is the strictest answer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace pinfold {

// Which of the two boundaries a cage has. An uncaged session has no cage and never reaches the keeper.
enum class cage_mode : std::uint8_t { sealed, caged };

// What cgroup v2 enforces for the whole cage (boundary.md, "Limits").
struct limits_spec {
    std::uint64_t memory_bytes = std::uint64_t{4} << 30; // memory.max; at least 16 MiB
    std::uint64_t swap_bytes = 0;                        // memory.swap.max
    std::uint32_t cpu_percent = 200;                     // cpu.max, in hundredths of a CPU; at least 1
    std::uint32_t processes = 2048;                      // pids.max; at least 4

    bool operator==(const limits_spec&) const = default;
};

struct terminal_size {
    std::uint16_t rows = 24;
    std::uint16_t columns = 80;

    bool operator==(const terminal_size&) const = default;
};

// A program inside the cage. Nothing is searched outside of it: argv[0] is looked up in the cage's own PATH.
struct command_spec {
    std::vector<std::string> argv;
    std::vector<std::string> environment;  // "NAME=value", complete: nothing is added by the keeper
    std::filesystem::path directory;       // absolute, inside the cage
    std::optional<terminal_size> terminal; // a pty of the cage's own; pipes where absent

    bool operator==(const command_spec&) const = default;
};

// One more of the owner's directories or files, at the same path inside. Opened with the owner's own credentials.
struct bind_spec {
    std::filesystem::path source;
    std::filesystem::path target;
    bool writable = false;

    bool operator==(const bind_spec&) const = default;
};

struct cage_spec {
    std::string name; // 1 to 64 of [a-z0-9._-], beginning with a letter or digit
    cage_mode mode = cage_mode::sealed;
    std::filesystem::path project; // the only writable directory of the owner
    std::string image = "host";
    limits_spec limits;
    command_spec command;
    std::vector<bind_spec> binds;
    std::vector<std::string> search_domains; // for resolv.conf; none when sealed
    bool keep_files = false;                 // the upper outlives the cage, until the name is removed

    bool operator==(const cage_spec&) const = default;
};

[[nodiscard]] const char* to_string(cage_mode mode) noexcept;

} // namespace pinfold
