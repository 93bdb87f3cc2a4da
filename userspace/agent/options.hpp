// The command line of pinfold-agent.
#pragma once

#include "base/default_paths.hpp"

#include <filesystem>
#include <span>
#include <string>
#include <variant>

namespace pinfold {

struct agent_options {
    std::filesystem::path keeper = default_keeper_socket;
    std::filesystem::path state; // the agent's own files: its log when it is started on demand
    std::filesystem::path api;
    std::filesystem::path resolv_conf = "/etc/resolv.conf";
    std::string log_level = "info";
};

// What to print instead of running: help or version (status 0), or what is wrong (status 2).
struct agent_answer {
    std::string text;
    int status = 0;
};

[[nodiscard]] std::variant<agent_options, agent_answer> read_agent_options(
    std::span<const char* const> arguments);

} // namespace pinfold
