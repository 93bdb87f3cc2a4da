// The verbs of pinfold: each reads its own options and returns the exit code.
#pragma once

#include "ctl/agent_start.hpp"
#include "ctl/client.hpp"
#include "ctl/command_line.hpp"

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace pinfold::ctl {

inline constexpr int exit_usage = 2;         // said wrongly
inline constexpr int exit_not_started = 125; // run, exec: the program was not started

using words = std::vector<std::string>;

int run_verb(common_options& options, const words& arguments);
int exec_verb(common_options& options, const words& arguments);
int plan_verb(common_options& options, const words& arguments);
int ls_verb(common_options& options, const words& arguments);
int inspect_verb(common_options& options, const words& arguments);
int rm_verb(common_options& options, const words& arguments);
int limits_verb(common_options& options, const words& arguments);
int denials_verb(common_options& options, const words& arguments);
int why_verb(common_options& options, const words& arguments);
int doctor_verb(common_options& options, const words& arguments);
int version_verb(common_options& options, const words& arguments);

// A client of the owner's agent, which is started where none runs.
[[nodiscard]] client agent_of(const common_options& options);

// Reads a verb's options; with --help prints `usage` and its options, and returns nothing.
[[nodiscard]] std::optional<parsed_line> read_verb(common_options& options, const words& arguments,
                                                   const char* usage, const po::options_description& own,
                                                   std::size_t names);

// The options that a verb takes, as they are typed.
[[nodiscard]] words options_of(int (*verb)(common_options&, const words&));

// Prints JSON as the API gave it: one line.
void print_json(const nlohmann::json& what);

} // namespace pinfold::ctl
