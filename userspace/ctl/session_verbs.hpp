// The verbs of sessions, and what the verbs of cages ask first: is it a session that is meant?
#pragma once

#include "ctl/verbs.hpp"

#include <optional>

namespace pinfold::ctl {

int new_verb(common_options& options, const words& arguments);
int send_verb(common_options& options, const words& arguments);
int attach_verb(common_options& options, const words& arguments);
int logs_verb(common_options& options, const words& arguments);
int approve_verb(common_options& options, const words& arguments);
int deny_verb(common_options& options, const words& arguments);
int set_verb(common_options& options, const words& arguments);
int move_verb(common_options& options, const words& arguments);

inline constexpr int exit_waits = 3; // send: the session waits for an answer of its owner

// The name of a session as it may stand in a path of the API. Throws usage_error.
[[nodiscard]] std::string session_path(const std::string& name);
// What the agent knows of it, or nothing where there is no such session.
[[nodiscard]] std::optional<nlohmann::json> find_session(client& agent, const std::string& name);

// For ls, rm and limits: sessions stand beside the cages.
[[nodiscard]] nlohmann::json sessions_of(client& agent);
void print_sessions(const nlohmann::json& list);
void set_session_limits(client& agent, const std::string& name, const parsed_line& line, bool as_json);

} // namespace pinfold::ctl
