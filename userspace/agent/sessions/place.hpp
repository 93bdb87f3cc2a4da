// Where the program of a session runs: what its cage is given, its private harness home, and its environment.
#pragma once

#include "agent/sessions/world.hpp"
#include "spec/cage_spec.hpp"

namespace pinfold {

struct placed_session {
    const session_row& row;
    const session_options& options;
    const session_settings& settings;
};

// A name of its own for each cage: a rename of the session keeps it, and a new session of an old name gets another.
[[nodiscard]] std::string make_cage_name(const std::string& of);
[[nodiscard]] run_mode mode_of(const session_options& options) noexcept;

// What a cage may be told of the agent's environment, by name and by nothing else; all of it when uncaged.
[[nodiscard]] std::map<std::string, std::string> make_session_environment(const session_world::settings& with,
                                                                          const placed_session& what);

// What its cage sees beside image and project. Makes the private directories on the machine that are mounted. Throws.
[[nodiscard]] std::vector<bind_spec> make_session_binds(const session_world::settings& with,
                                                        const placed_session& what);

// In every cage: the tools for working with other agents.
inline constexpr const char* mcp_program = "/run/pinfold-mcp";

// Where its socket to this agent is on the machine; in the cage it is below /run/shrooms-agent.
[[nodiscard]] std::filesystem::path door_of(const session_world::settings& with, const std::string& cage);

// Everything the agent keeps of a cage on the machine; of a sealed one that is moved out, its transcript goes back first.
void remove_private_home(const session_world::settings& with, const std::string& cage);
void carry_transcript_out(const session_world::settings& with, const session_row& row);

// Where uploads of this session are kept; made when the first one comes.
[[nodiscard]] std::filesystem::path uploads_of(const session_world::settings& with,
                                               const std::string& session);
[[nodiscard]] std::filesystem::path outbox_of(const session_world::settings& with,
                                              const std::string& session);

// Throws session_refusal where a sealed session may not work: a home, what is above it, or what holds its keys.
void refuse_sealed_directory(const session_world::settings& with, const std::filesystem::path& directory,
                             int status);

// A sealed claude runs on a token of its own. Throws session_refusal, which says how to get one, where there is none.
void refuse_without_token(const session_world::settings& with, int status);
[[nodiscard]] bool has_sealed_token(const session_world::settings& with);

// Claude Code's and pi's names for the folder of a project's conversations.
[[nodiscard]] std::string claude_folder(const std::filesystem::path& directory);
[[nodiscard]] std::string pi_folder(const std::filesystem::path& directory);
// The owner's own transcript of this conversation, wherever its project is; empty = there is none.
[[nodiscard]] std::filesystem::path find_transcript(const session_world::settings& with,
                                                    const std::string& id);
// pi's list of providers as a cage gets it: each reached through the gateway, none with its key.
[[nodiscard]] std::string caged_models(std::string_view owners, const std::string& gateway);

// The directory that a transcript says it was held in. Throws session_refusal (400).
[[nodiscard]] std::string recorded_directory(const std::filesystem::path& transcript);

} // namespace pinfold
