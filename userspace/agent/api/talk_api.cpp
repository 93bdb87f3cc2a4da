// What is said to a session and what was said in it.
#include "agent/api/session_routes.hpp"
#include "agent/sessions/event_text.hpp"
#include "agent/sessions/place.hpp"
#include "agent/sessions/transcript_lines.hpp"
#include "agent/tasks/dropped_files.hpp"
#include "agent/tasks/task_board.hpp"
#include "base/file.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <ctime>
#include <deque>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <ranges>

namespace pinfold {

using nlohmann::json;

namespace {

constexpr std::uint64_t most_lines = 200;
constexpr std::size_t events_at_once = 200; // looked at before others have a turn

// What was said, newest first, until `enough` says so.
template <typename Take>
task<> walk_back(services& with, std::int64_t session, Take take) {
    std::uint64_t before = 0;
    for (;;) {
        const std::vector<event_row> rows = with.listed->world().kept.said_before(session, before,
                                                                                  events_at_once);
        for (const event_row& each : rows) {
            const auto line = spoken_of(each);
            if (line && !take(*line)) co_return;
        }
        if (rows.size() < events_at_once) co_return;
        before = rows.back().seq;
        std::ignore = co_await sleep_for(with.owned.ring(), std::chrono::nanoseconds(1));
    }
}

// What was said in its conversation before this agent had it, oldest first.
task<std::deque<spoken_line>> lines_before(services& with, std::shared_ptr<session> one, std::string before,
                                           std::size_t most, transcript_lines::filter wanted = {}) {
    if (one->row().harness != "claude" || one->row().conversation.empty())
        co_return std::deque<spoken_line>();
    const std::vector<event_row> first = with.listed->world().kept.events(one->row().id, 0, 1);
    const std::string begun = first.empty() ? one->row().last_time : first.front().time;
    if (before.empty() || begun < before) before = begun;
    transcript_lines all(find_transcript(with.listed->world().with, one->row().conversation), before, most,
                         std::move(wanted));
    while (all.read_more()) std::ignore = co_await sleep_for(with.owned.ring(), std::chrono::nanoseconds(1));
    co_return all.lines();
}

// A few words on both sides of what was found, cut at whole characters.
std::string snippet(const std::string& text, std::size_t at, std::size_t size) {
    constexpr std::size_t around = 60;
    const auto is_inside = [&](std::size_t i) {
        return i < text.size() && (static_cast<unsigned char>(text[i]) & 0xc0U) == 0x80U;
    };
    std::size_t begin = at > around ? at - around : 0, end = std::min(text.size(), at + size + around);
    while (begin > 0 && is_inside(begin)) --begin;
    while (is_inside(end)) ++end;
    return (begin > 0 ? "…" : "") + text.substr(begin, end - begin) + (end < text.size() ? "…" : "");
}

std::string local_stamp() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    ::localtime_r(&now, &parts);
    return fmt::format("{:04}{:02}{:02}-{:02}{:02}{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                       parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

} // namespace

task<std::optional<http::response>> send_message(services& with, exchange& asked) {
    const std::shared_ptr<session> one = session_of(with, asked);
    auto message = read_message(asked.request.body);
    if (!message) throw bad_request(message.error().text());
    const auto how = co_await one->send(std::move(message->text), std::move(message->id), asked.by);
    if (how == session::sent::duplicate) co_return answer_json({{"duplicate", true}});
    co_return http::response{.status = 202};
}

task<std::optional<http::response>> answer_prompt(services& with, exchange& asked) {
    const std::shared_ptr<session> one = session_of(with, asked);
    const auto request = read_answer(asked.request.body);
    if (!request) throw bad_request(request.error().text());
    harness::answer what{.allow = request->allow, .message = request->message};
    for (const auto& [question, said] : request->answers) what.answers.insert_or_assign(question, said);
    one->answer(asked.id, what, asked.by);
    co_return http::response{.status = 204};
}

task<std::optional<http::response>> interrupt_session(services& with, exchange& asked) {
    const std::shared_ptr<session> one = session_of(with, asked);
    co_await one->interrupt();
    if (with.tasks != nullptr) with.tasks->pause(*one);
    co_return http::response{.status = 202};
}

task<std::optional<http::response>> read_history(services& with, exchange& asked) {
    const std::shared_ptr<session> one = session_of(with, asked);
    const std::uint64_t limit = query_number(asked, "limit", most_lines, 30);
    const auto found = asked.request.query.find("before");
    const std::string before = found == asked.request.query.end() ? "" : found->second;
    if (!before.empty() && (before.size() < 20 || before[4] != '-' || before[10] != 'T'))
        throw bad_request("before: must be a time as RFC 3339 has it, like 2026-01-31T12:00:00Z");
    json lines = json::array();
    co_await walk_back(with, one->row().id, [&](const spoken_line& line) {
        if (lines.size() >= limit) return false;
        if (before.empty() || line.time < before)
            lines.push_back({{"time", line.time}, {"role", line.role}, {"text", line.text}});
        return true;
    });
    std::ranges::reverse(lines);
    if (lines.size() < limit) {
        json all = json::array();
        for (const spoken_line& each : co_await lines_before(with, one, before, limit - lines.size()))
            all.push_back({{"time", each.time}, {"role", each.role}, {"text", each.text}});
        all.insert(all.end(), lines.begin(), lines.end());
        lines = std::move(all);
    }
    co_return answer_json({{"history", std::move(lines)}});
}

task<std::optional<http::response>> search_session(services& with, exchange& asked) {
    const std::shared_ptr<session> one = session_of(with, asked);
    const std::uint64_t limit = query_number(asked, "limit", most_lines, 50);
    const auto query = asked.request.query.find("q");
    if (query == asked.request.query.end() || query->second.empty())
        throw bad_request("q: must say what is sought");
    const std::string sought = lowered(query->second);
    json lines = json::array();
    const auto add = [&](const spoken_line& line) {
        const std::size_t at = lowered(line.text).find(sought);
        if (at == std::string::npos) return;
        lines.push_back({{"seq", line.seq}, // 0 = from before this session
                         {"time", line.time},
                         {"role", line.role},
                         {"snippet", snippet(line.text, at, sought.size())},
                         {"text", line.text}});
    };
    co_await walk_back(with, one->row().id, [&](const spoken_line& line) {
        if (lines.size() >= limit) return false;
        add(line);
        return true;
    });
    if (lines.size() < limit) {
        const auto is_found = [&](const spoken_line& line) {
            return lowered(line.text).find(sought) != std::string::npos;
        };
        const auto before = co_await lines_before(with, one, "", limit - lines.size(), is_found);
        for (const spoken_line& each : std::views::reverse(before)) add(each);
    }
    co_return answer_json({{"found", std::move(lines)}});
}

task<std::optional<http::response>> take_file(services& with, exchange& asked) {
    const std::shared_ptr<session> one = session_of(with, asked);
    if (asked.request.body.empty()) throw bad_request("the file is empty");
    const auto query = asked.request.query.find("name");
    const std::string name = plain_file_name(query == asked.request.query.end() ? "" : query->second);
    const std::filesystem::path folder = uploads_of(with.listed->world().with, one->row().name);
    const unique_fd directory = make_directory(folder);
    for (int i = 0; i < 100; ++i) {
        const std::string stored = fmt::format("{}-{}{}", local_stamp(), i == 0 ? "" : fmt::format("{}-", i),
                                               name);
        const unique_fd file(::openat(directory.get(), stored.c_str(),
                                      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
        if (!file && errno == EEXIST) continue;
        if (!file) fail_errno(errno, "keep the file {}", (folder / stored).native());
        std::string_view left = asked.request.body;
        while (!left.empty()) {
            const ssize_t written = ::write(file.get(), left.data(), left.size());
            if (written < 0 && errno == EINTR) continue;
            if (written < 0) {
                const int error = errno;
                ::unlinkat(directory.get(), stored.c_str(), 0); // half a file is worse than none
                fail_errno(error, "keep the file {}", (folder / stored).native());
            }
            left.remove_prefix(static_cast<std::size_t>(written));
        }
        co_return answer_json({{"path", (folder / stored).native()}}, 201);
    }
    throw session_refusal(409, "a hundred files of this name came within this second; send it again");
}

} // namespace pinfold
