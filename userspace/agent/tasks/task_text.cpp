#include "agent/tasks/task_text.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <fmt/format.h>

namespace pinfold {

namespace {

constexpr std::string_view own_mark = "[shrooms";

std::string sender(const std::string& from) {
    return from.empty() ? "this machine" : from;
}

// What the worker is to do when it is through; told with each delivery, since a long conversation forgets.
std::string how_to_report(const task_row& task) {
    return fmt::format(
        "\n\n[shrooms: when it is finished, blocked or failed, say so with task_update, task {}, state "
        "done, blocked or failed, and the result or the question as its summary. The task stays open "
        "until you do.]",
        task.id);
}

std::string named(const task_row& task, std::string_view machine) {
    std::string text = fmt::format("{}/{}", machine, task.id);
    if (!task.title.empty()) text += fmt::format(" ({})", task.title);
    return text;
}

} // namespace

std::string quote_own_marks(std::string_view text) {
    std::string made;
    while (!text.empty()) {
        const std::size_t end = text.find_first_of("\n\r");
        const std::string_view line = text.substr(0, end == std::string_view::npos ? end : end + 1);
        std::string_view bare = line;
        while (!bare.empty() && (bare.front() == ' ' || bare.front() == '\t')) bare.remove_prefix(1);
        if (bare.starts_with(own_mark)) made += "> ";
        made += line;
        text.remove_prefix(line.size());
    }
    return made;
}

std::string work_text(const task_row& task, const std::vector<task_message>& given, bool is_first) {
    std::string text;
    for (const task_message& each : given) {
        if (!text.empty()) text += "\n\n";
        text += fmt::format("[shrooms task {} from {}{}]\n{}", task.id, sender(each.from),
                            is_first && &each == &given.front() ? "" : ", more to it",
                            quote_own_marks(each.text));
    }
    return text + how_to_report(task);
}

std::string reminder_text(const task_row& task) {
    return fmt::format(
        "[shrooms task {} from {}] It is still open, and nothing was heard of it for a while: go on with "
        "it, or say how it stands.{}",
        task.id, sender(task.from), how_to_report(task));
}

std::string cancel_text(const task_row& task) {
    return fmt::format("[shrooms task {} from {}] It was canceled{}: stop working on it.", task.id,
                       sender(task.from),
                       task.summary.empty() ? "" : " (" + quote_own_marks(task.summary) + ")");
}

std::string note_text(const task_row& task, std::string_view machine) {
    const std::string id = fmt::format("{}/{}", machine, task.id);
    std::string text = fmt::format("[shrooms note] Your task {} ", named(task, machine));
    switch (task.state) {
    case task_state::input_required: text += "needs your answer"; break;
    case task_state::completed: text += "is done"; break;
    case task_state::failed: text += "failed"; break;
    case task_state::rejected: text += "was declined by the owner of that session"; break;
    case task_state::canceled: text += task.expired ? "has expired" : "was canceled"; break;
    default: text += fmt::format("is {}", word_of(task.state)); break;
    }
    if (!task.summary.empty()) text += ":\n" + quote_own_marks(task.summary);
    if (task.state == task_state::input_required)
        return text + fmt::format("\n\n[shrooms: answer it with ask_agent, task {}.]", id);
    return text +
           fmt::format("\n\n[shrooms: acknowledge it with task_ack, task {}, once you have used it.]", id);
}

unix_milliseconds quiet_before(std::int64_t nudges, std::string_view harness) noexcept {
    constexpr std::array<unix_milliseconds, most_nudges> after{1 * minute_ms, 2 * minute_ms, 5 * minute_ms,
                                                               10 * minute_ms, 30 * minute_ms};
    if (nudges <= 0) return (harness == "pi" ? 2 : 5) * minute_ms;
    return after[static_cast<std::size_t>(std::min(nudges, most_nudges) - 1)];
}

std::optional<task_state> reported_state(std::string_view word) noexcept {
    if (word == "done" || word == "completed") return task_state::completed;
    if (word == "blocked" || word == "input_required" || word == "input-required")
        return task_state::input_required;
    if (word == "failed") return task_state::failed;
    return std::nullopt;
}

std::string time_text(unix_milliseconds at) {
    const auto seconds = static_cast<std::time_t>(at / second_ms);
    std::tm parts{};
    ::gmtime_r(&seconds, &parts);
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                       parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, at % second_ms);
}

unix_milliseconds parse_time(const std::string& text) noexcept {
    std::tm parts{};
    const char* rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
    return rest == nullptr ? 0 : static_cast<unix_milliseconds>(::timegm(&parts)) * second_ms;
}

} // namespace pinfold
