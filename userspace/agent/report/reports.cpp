#include "agent/report/reports.hpp"

#include "base/beneath.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "ring/next_turn.hpp"

#include <ctime>
#include <fcntl.h>
#include <map>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

namespace pinfold {

using nlohmann::json;

namespace {

constexpr std::size_t largest_kept = std::size_t{32} << 20;

std::string utc_now() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    ::gmtime_r(&now, &parts);
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                       parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::string file_of(std::int64_t session) {
    return fmt::format("{}.json", session);
}

using key = std::tuple<std::string, std::string, std::string>;

key key_of(const report::item& of) {
    return {of.path, of.kind, of.what};
}

} // namespace

namespace report {

const char* to_string(finding::state is) noexcept {
    switch (is) {
    case finding::state::is_new: return "new";
    case finding::state::changed: return "changed";
    case finding::state::there: return "there";
    }
    return "new";
}

look compare(const picture* before, picture now) {
    look made{.since = "", .found = {}, .entries = now.entries, .is_complete = now.is_complete};
    std::map<key, std::string> known;
    if (before != nullptr) {
        for (const item& each : before->items) known.emplace(key_of(each), each.mark);
        made.is_complete = made.is_complete && before->is_complete;
    }
    for (item& each : now.items) {
        finding one{.what = std::move(each), .is = finding::state::there};
        const bool is_program = one.what.kind == program_kind;
        if (before != nullptr) {
            const auto found = known.find(key_of(one.what));
            if (found == known.end())
                one.is = finding::state::is_new;
            else if (found->second != one.what.mark)
                one.is = finding::state::changed;
        }
        if (!is_program || one.is != finding::state::there) made.found.push_back(std::move(one));
    }
    return made;
}

std::string event_text(const look& from) {
    constexpr std::size_t most = 20;
    json list = json::array();
    std::size_t count = 0;
    for (const finding& each : from.found) {
        if (each.is == finding::state::there || from.since.empty()) continue;
        if (++count > most) continue;
        list.push_back({{"state", to_string(each.is)},
                        {"kind", each.what.kind},
                        {"path", each.what.path},
                        {"what", each.what.what}});
    }
    if (count == 0) return {};
    return json{{"found", std::move(list)}, {"count", count}, {"complete", from.is_complete}}.dump(
        -1, ' ', false, json::error_handler_t::replace);
}

std::string to_text(const picture& from, const std::string& project, const std::string& time) {
    json items = json::array();
    for (const item& each : from.items) items.push_back({each.path, each.kind, each.what, each.mark});
    const json all{{"version", 1},
                   {"time", time},
                   {"dir", project},
                   {"complete", from.is_complete},
                   {"items", std::move(items)}};
    return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<kept_picture> picture_from(std::string_view text) {
    const json all = json::parse(text, nullptr, false);
    if (!all.is_object() || all.value("version", 0) != 1 || !all.contains("items") ||
        !all["items"].is_array())
        return std::nullopt;
    kept_picture made{.seen = {}, .project = all.value("dir", ""), .time = all.value("time", "")};
    made.seen.is_complete = all.value("complete", false);
    for (const json& each : all["items"]) {
        if (!each.is_array() || each.size() != 4) return std::nullopt;
        for (const json& part : each)
            if (!part.is_string()) return std::nullopt;
        made.seen.items.push_back(
            {.path = each[0], .kind = each[1], .what = each[2], .mark = each[3], .why = "", .details = {}});
    }
    return made;
}

} // namespace report

task<report::picture> project_reports::scan(std::filesystem::path project) {
    report::scan at(std::move(project));
    while (at.step()) co_await next_turn(ring_);
    co_return at.take();
}

task<> project_reports::remember(std::int64_t session, std::filesystem::path project) {
    try {
        const unique_fd folder = make_directory(folder_);
        struct stat seen{};
        if (::fstatat(folder.get(), file_of(session).c_str(), &seen, AT_SYMLINK_NOFOLLOW) == 0) co_return;
        const std::string dir = plain_line(project.native());
        const report::picture now = co_await scan(std::move(project));
        replace_file_at(folder.get(), file_of(session), report::to_text(now, dir, utc_now()));
    } catch (const std::exception& error) {
        spdlog::warn("what was in the project before is not known, and its report will say so: {}",
                     error.what());
    }
}

task<report::look> project_reports::look(std::int64_t session, std::filesystem::path project) {
    std::optional<report::kept_picture> before;
    const std::string dir = plain_line(project.native());
    const unique_fd file(::open((folder_ / file_of(session)).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (file) before = report::picture_from(read_at_most(file.get(), largest_kept));
    if (before && before->project != dir) before.reset();
    report::picture now = co_await scan(std::move(project));
    report::look made = report::compare(before ? &before->seen : nullptr, std::move(now));
    if (before) made.since = before->time;
    co_return made;
}

void project_reports::forget(std::int64_t session) noexcept {
    (void)::unlink((folder_ / file_of(session)).c_str());
}

} // namespace pinfold
