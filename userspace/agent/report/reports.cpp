#include "agent/report/reports.hpp"

#include "base/beneath.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "ring/next_turn.hpp"

#include <algorithm>
#include <ctime>
#include <fcntl.h>
#include <map>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

namespace pinfold {

using nlohmann::json;

namespace {

constexpr std::size_t largest_kept = std::size_t{32} << 20;
constexpr std::size_t entries_a_turn = 64, most_taken = 1000;

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

bool is_list_of_fours(const json& list) {
    return list.is_array() && std::ranges::all_of(list, [](const json& each) {
               return each.is_array() && each.size() == 4 &&
                      std::ranges::all_of(each, [](const json& part) { return part.is_string(); });
           });
}

} // namespace

namespace report {

const char* to_string(finding::state is) noexcept {
    switch (is) {
    case finding::state::is_new: return "new";
    case finding::state::changed: return "changed";
    case finding::state::there: return "there";
    case finding::state::taken_off: return "taken-off";
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
        const bool is_news = each.is == finding::state::taken_off || !from.since.empty();
        if (each.is == finding::state::there || !is_news) continue;
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

void add_taken(look& to, const std::vector<taken_bits>& taken) {
    for (const auto& [file, time] : taken) {
        if (file.trouble.empty()) {
            to.found.push_back({.what = {.path = file.path,
                                         .kind = set_id_kind,
                                         .what = fmt::format("{}, taken off at {}", file.mode, time),
                                         .mark = "",
                                         .why = "who ran it would have become its owner or its group",
                                         .details = {}},
                                .is = finding::state::taken_off});
            continue;
        }
        for (finding& each : to.found) {
            if (each.what.kind == set_id_kind && each.what.path == file.path && each.what.what == file.mode)
                each.what.details = {"it could not be taken off: " + file.trouble};
        }
    }
}

std::string to_text(const kept_picture& from) {
    json items = json::array(), taken = json::array();
    for (const item& each : from.seen.items) items.push_back({each.path, each.kind, each.what, each.mark});
    for (const auto& [file, time] : from.taken) taken.push_back({file.path, file.mode, file.trouble, time});
    const json all{{"version", 1},
                   {"time", from.time},
                   {"dir", from.project},
                   {"complete", from.seen.is_complete},
                   {"items", std::move(items)},
                   {"taken", std::move(taken)}};
    return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<kept_picture> picture_from(std::string_view text) {
    const json all = json::parse(text, nullptr, false);
    if (!all.is_object() || all.value("version", 0) != 1 || !all.contains("items") ||
        !all["items"].is_array())
        return std::nullopt;
    kept_picture made{
        .seen = {}, .project = all.value("dir", ""), .time = all.value("time", ""), .taken = {}};
    made.seen.is_complete = all.value("complete", false);
    const json taken = all.value("taken", json::array());
    if (!is_list_of_fours(all["items"]) || !is_list_of_fours(taken)) return std::nullopt;
    for (const json& each : taken)
        made.taken.push_back(
            {.file = {.path = each[0], .mode = each[1], .trouble = each[2]}, .time = each[3]});
    for (const json& each : all["items"]) {
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
        report::picture now = co_await scan(std::move(project));
        replace_file_at(
            folder.get(), file_of(session),
            report::to_text({.seen = std::move(now), .project = dir, .time = utc_now(), .taken = {}}));
    } catch (const std::exception& error) {
        spdlog::warn("what was in the project before is not known, and its report will say so: {}",
                     error.what());
    }
}

std::optional<report::kept_picture> project_reports::kept(std::int64_t session,
                                                          const std::filesystem::path& project) const {
    const unique_fd file(::open((folder_ / file_of(session)).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!file) return std::nullopt;
    auto found = report::picture_from(read_at_most(file.get(), largest_kept));
    if (found && found->project != plain_line(project.native())) found.reset();
    return found;
}

task<report::look> project_reports::look(std::int64_t session, std::filesystem::path project) {
    const auto before = kept(session, project);
    report::picture now = co_await scan(std::move(project));
    report::look made = report::compare(before ? &before->seen : nullptr, std::move(now));
    if (!before) co_return made;
    made.since = before->time;
    report::add_taken(made, before->taken);
    co_return made;
}

// What was before is read at once: a session that is being deleted has it forgotten in the next moment.
task<report::look> project_reports::clear_and_look(std::int64_t session, std::filesystem::path project) {
    const auto before = kept(session, project);
    report::set_id_bits bits(project, before ? &before->seen : nullptr);
    for (std::size_t turn = 1; bits.step(); ++turn)
        if (turn % entries_a_turn == 0) co_await next_turn(ring_);
    std::vector<report::taken_bits> taken;
    for (report::set_id_file& each : bits.take())
        taken.push_back({.file = std::move(each), .time = utc_now()});
    if (!taken.empty()) keep_taken(session, project, taken);
    report::look made = co_await look(session, std::move(project));
    if (made.since.empty())
        report::add_taken(made, taken); // nothing is kept of a project that nobody looked at
    made.is_complete = made.is_complete && bits.is_complete();
    co_return made;
}

void project_reports::keep_taken(std::int64_t session, const std::filesystem::path& project,
                                 const std::vector<report::taken_bits>& taken) const {
    auto all = kept(session, project);
    if (!all) return;
    for (const report::taken_bits& each : taken) {
        std::erase_if(all->taken,
                      [&](const report::taken_bits& old) { return old.file.path == each.file.path; });
        all->taken.push_back(each);
    }
    if (all->taken.size() > most_taken)
        all->taken.erase(all->taken.begin(), all->taken.end() - static_cast<std::ptrdiff_t>(most_taken));
    replace_file_at(open_directory(folder_).get(), file_of(session), report::to_text(*all));
}

void project_reports::forget(std::int64_t session) noexcept {
    (void)::unlink((folder_ / file_of(session)).c_str());
}

} // namespace pinfold
