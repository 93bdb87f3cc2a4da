// Events as JSON: their data, and the one line that goes to whoever listens.
#pragma once

#include "agent/harness/harness.hpp"
#include "agent/sessions/options.hpp"
#include "agent/store/store.hpp"

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace pinfold {

[[nodiscard]] std::string now_text();                        // RFC 3339, UTC, milliseconds
[[nodiscard]] std::string moment_text(std::int64_t seconds); // the same of a moment since 1970, whole seconds
[[nodiscard]] std::string event_json(const event_row& from);
// As a server-sent event: one without a number is not kept, and a client resumes behind the last that has one.
[[nodiscard]] std::string event_block(const event_row& from, bool kept);

namespace event_data {
[[nodiscard]] std::string message(std::string_view text, std::string_view id, bool waits);
[[nodiscard]] std::string answer(std::string_view prompt, const harness::answer& what);
[[nodiscard]] std::string stopped(std::string_view reason);
[[nodiscard]] std::string partial(std::string_view text);
[[nodiscard]] std::string renamed(std::string_view from, std::string_view to);
[[nodiscard]] std::string caged(const std::optional<cage_options>& cage);
[[nodiscard]] std::string limits(std::string_view memory, std::string_view cpus);
// A turn of a program that says nothing of turns.
[[nodiscard]] std::string result(bool failed, std::string_view text);
} // namespace event_data

// The changed settings, one event's data each.
[[nodiscard]] std::vector<std::string> setting_events(const settings_change& change);

struct spoken_line {
    std::uint64_t seq = 0;
    std::string time, role, text;
};
// What people read of an event: a message, or what the assistant said. Nothing for the rest.
[[nodiscard]] std::optional<spoken_line> spoken_of(const event_row& from);

// The text of a message's content: a string, or its blocks of type "text".
[[nodiscard]] std::string content_text(const nlohmann::json& content);

// At most so many characters, with an ellipsis where it was cut; never in the middle of one.
[[nodiscard]] std::string cut(std::string_view text, std::size_t characters);

} // namespace pinfold
