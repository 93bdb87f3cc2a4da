// The command line of pinfold-agent.
#pragma once

#include "base/default_paths.hpp"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace pinfold {

struct agent_options {
    std::filesystem::path keeper = default_keeper_socket;
    std::filesystem::path state; // the agent's own files: its log when it is started on demand
    std::filesystem::path api;
    std::filesystem::path resolv_conf = "/etc/resolv.conf";
    std::string log_level = "info";

    std::vector<std::string> listen;     // addresses of meshes at which the API is served, too
    std::vector<std::string> host_names; // what clients call this agent there
    std::uint16_t port = 7387;
    std::string claude = "claude", pi = "pi", pi_arguments;
    std::string image = "host", cage_memory, cage_cpus; // of cages that say nothing else; empty = pinfold's
    std::filesystem::path sealed_token;
    std::filesystem::path peers, shrooms = "/run/shrooms/shrooms.sock"; // who says which machines there are
    std::uint64_t idle_seconds = 1800;

    std::string model_url = "https://api.anthropic.com"; // where the gateway takes a cage's model requests
    std::filesystem::path model_key;                     // the credential it puts on them
    std::filesystem::path model_ca;                      // certificates; empty = the machine's
    std::uint32_t model_silence_seconds = 60;            // of the provider, before its session is told
};

// What to print instead of running: help or version (status 0), or what is wrong (status 2).
struct agent_answer {
    std::string text;
    int status = 0;
};

[[nodiscard]] std::variant<agent_options, agent_answer> read_agent_options(
    std::span<const char* const> arguments);

} // namespace pinfold
