// The options of run and plan, and the request they make.
#pragma once

#include "ctl/agent_start.hpp"
#include "ctl/command_line.hpp"

#include <nlohmann/json_fwd.hpp>

namespace pinfold::ctl {

[[nodiscard]] po::options_description run_description();
[[nodiscard]] po::options_description limit_description();
[[nodiscard]] po::options_description exec_description();

// The body of POST /v1/cages. Throws usage_error.
[[nodiscard]] nlohmann::json run_request_of(const parsed_line& line, const owner& whose);
// Of POST /v1/cages/NAME/exec.
[[nodiscard]] nlohmann::json exec_request_of(const parsed_line& line);
// {"memory", "cpus", "pids"}: those that were given.
[[nodiscard]] nlohmann::json limits_of(const parsed_line& line);

// The name of a cage as it may stand in a path of the API. Throws usage_error.
std::string checked_name(const std::string& name);

} // namespace pinfold::ctl
