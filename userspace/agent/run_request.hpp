// What a client asks to be run, read and checked, and what becomes of it: the spec and the environment.
#pragma once

#include "agent/resolv_conf.hpp"
#include "base/error.hpp"
#include "spec/cage_spec.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pinfold {

enum class run_mode : std::uint8_t { sealed, caged, uncaged };
[[nodiscard]] const char* to_string(run_mode mode) noexcept;

// The client asked for what cannot be: the API says 400.
class bad_request : public failure {
public:
    using failure::failure;
};

struct command_request {
    std::vector<std::string> argv;
    std::map<std::string, std::string> environment;
    std::optional<terminal_size> terminal;
    std::filesystem::path directory; // absolute; empty = the cage's own
};

struct run_request {
    std::string name; // empty = one is made up
    run_mode mode = run_mode::sealed;
    std::filesystem::path directory;
    std::string image = "host";
    limits_spec limits;
    command_request command;
    std::vector<bind_spec> binds; // of a session: its harness home and what else it is given
    bool read_only_git = false;   // its project has a .git whose settings and hooks it cannot change
    bool keep_files = false;      // what it installs stays until the name is removed
};

// Complete and in order: PATH, HOME, the client's own variables, and what says where the program is.
[[nodiscard]] std::vector<std::string> make_environment(const command_request& from, run_mode mode,
                                                        const std::string& name);

// Throws bad_request where the spec cannot be meant or the directory does not exist.
[[nodiscard]] cage_spec make_spec(const run_request& from, const resolver_settings& resolvers);
// The same for a program beside the machine's others.
[[nodiscard]] command_spec make_command(const command_request& from, run_mode mode, const std::string& name,
                                        const std::filesystem::path& directory);
// As the kernel knows it, links resolved. Throws bad_request where it is no directory.
[[nodiscard]] std::filesystem::path canonical_directory(const std::filesystem::path& path);

// "heron-4f2a": for who gave none.
[[nodiscard]] std::string make_up_name();

} // namespace pinfold
