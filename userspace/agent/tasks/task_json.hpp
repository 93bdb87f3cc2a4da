// Tasks and cards as A2A v1.0 shows them, with the shrooms/… metadata that existing agents read.
#pragma once

#include "agent/tasks/task_row.hpp"

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace pinfold {

// What is not kept of a task but known now.
struct task_view {
    std::string session; // the worker's name, as it is now
    std::string context; // its conversation
    task_state state =
        task_state::held; // as it is shown: a worker that waits for its owner's answer needs input
    bool queued = false;
    std::string last_line; // the worker's, since it got this task
    std::vector<task_message> asked;
};

// Of what was asked the latest messages only; nothing = all.
void cut_history(task_view& shown, std::optional<std::size_t> most);

inline constexpr std::size_t longest_last_line = 600, listed_text = 2000; // characters

// `listed`: among many, so that long texts are cut.
[[nodiscard]] nlohmann::json task_json(const task_row& task, const task_view& view, bool listed = false);
// As a result: the task itself, as A2A v1.0 has it, and beside it as `task`, where Shrooms agents look.
[[nodiscard]] nlohmann::json task_result(nlohmann::json task);
[[nodiscard]] nlohmann::json status_json(const task_row& task, const task_view& view);
[[nodiscard]] nlohmann::json request_json(const file_request& from);

struct carded_session {
    std::string name, harness;
};
// `host` as the request named it.
[[nodiscard]] nlohmann::json machine_card(const std::string& machine, const std::string& host,
                                          std::span<const carded_session> sessions);
[[nodiscard]] nlohmann::json session_card(const std::string& machine, const std::string& host,
                                          const carded_session& of);

} // namespace pinfold
