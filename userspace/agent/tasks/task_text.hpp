// The words of tasks: what a worker reads, what an asker is told, and when a worker is reminded.
#pragma once

#include "agent/tasks/task_row.hpp"

#include <optional>

namespace pinfold {

// What the worker gets. No line of the asker's looks like one of the agent's own.
[[nodiscard]] std::string work_text(const task_row& task, const std::vector<task_message>& given,
                                    bool is_first);
[[nodiscard]] std::string reminder_text(const task_row& task);
[[nodiscard]] std::string cancel_text(const task_row& task);
// What its asker gets; `machine` is this one's name.
[[nodiscard]] std::string note_text(const task_row& task, std::string_view machine);

// A line of somebody else's that begins as the agent's do is marked as quoted.
[[nodiscard]] std::string quote_own_marks(std::string_view text);

inline constexpr unix_milliseconds second_ms = 1000, minute_ms = 60 * second_ms, hour_ms = 60 * minute_ms,
                                   day_ms = 24 * hour_ms;
inline constexpr std::int64_t most_nudges = 5;       // of one task, in a row; then it is stalled
inline constexpr std::size_t most_nudges_hourly = 6; // of one session

// How long the session must have been quiet for the next reminder; after the last it is stalled instead.
[[nodiscard]] unix_milliseconds quiet_before(std::int64_t nudges, std::string_view harness) noexcept;

// "done", "blocked", "failed" and their other spellings. Nothing = none of them.
[[nodiscard]] std::optional<task_state> reported_state(std::string_view word) noexcept;

[[nodiscard]] std::string time_text(unix_milliseconds at);                    // RFC 3339, UTC
[[nodiscard]] unix_milliseconds parse_time(const std::string& text) noexcept; // the same back; 0 = it is none

} // namespace pinfold
