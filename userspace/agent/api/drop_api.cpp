// Files between agents: who may send one is on a list of the session's, and who was not is remembered for its owner.
#include "agent/api/session_routes.hpp"
#include "agent/api/task_routes.hpp"
#include "agent/sessions/place.hpp"
#include "agent/tasks/dropped_files.hpp"
#include "agent/tasks/task_board.hpp"

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

namespace pinfold {

using nlohmann::json;

namespace {

std::string query_text(const exchange& asked, const char* key) {
    const auto found = asked.request.query.find(key);
    return found == asked.request.query.end() ? std::string() : found->second;
}

dropped_files files_of(services& with, const session& one) {
    const session_world::settings& set = with.listed->world().with;
    return {set.state, uploads_of(set, one.row().name)};
}

// Why it may not send; empty = it may.
std::string objection(const session& to, const asker& who) {
    if (!is_listed(to.settings().accept_files_from, who))
        return fmt::format(
            "session \"{0}\" takes no files from {1}; its owner may allow it: 'pinfold files allow {0} "
            "{1}', or accept_files_from in its settings",
            to.row().name, who.name());
    if (!takes_from(to.settings(), to.options().cage.has_value(), who))
        return fmt::format(
            "{} may send files, but asks from a cage, and session \"{}\" takes nothing from caged "
            "agents (accept_caged, accept_caged_from)",
            who.name(), to.row().name);
    return {};
}

std::string told(const dropped_file& file, const std::string& note) {
    std::string text = fmt::format("[shrooms file from {}: {}, {} bytes, at {}]", file.from, file.name,
                                   file.size, file.path);
    if (!note.empty()) text += "\n" + quote_own_marks(note);
    return text;
}

void remember(services& with, session& to, const file_request& what) {
    with.tasks->kept().put_request(to.row().id, what, task_board::most_requests);
    to.record("file-request", what.from, request_json(what).dump());
}

} // namespace

task<std::optional<http::response>> drop_file(services& with, exchange& asked) {
    const std::shared_ptr<session> to = session_of(with, asked);
    const asker who = co_await with.tasks->who(
        {.address = asked.by,
         .caged = caged_session(asked.request),
         .claim = std::string(asked.request.field("x-shrooms-from-session"))});
    if (who.name().empty())
        throw bad_request("X-Shrooms-From-Session: must name the session that sends the file");
    const std::string name = plain_file_name(query_text(asked, "name"));
    if (const std::string why = objection(*to, who); !why.empty()) {
        remember(with, *to,
                 {.from = who.name(),
                  .name = name,
                  .size = static_cast<std::int64_t>(asked.request.body.size()),
                  .at = with.tasks->now()});
        co_return answer_error(403, why);
    }
    if (asked.request.body.empty()) throw bad_request("the file is empty");
    const dropped_file kept = co_await files_of(with, *to).keep(with.owned.ring(), who.name(), name,
                                                                asked.request.body);
    const json data{{"from", kept.from}, {"name", kept.name}, {"path", kept.path}, {"size", kept.size}};
    to->record("file", kept.from, data.dump());
    if (query_text(asked, "tell") != "0") {
        try {
            std::ignore = co_await to->send(told(kept, query_text(asked, "note")), "", kept.from);
        } catch (const session_refusal& error) { // the file is there, and its event says so
            spdlog::warn("session \"{}\" was not told of a file: {}", to->row().name, error.what());
        }
    }
    co_return answer_json({{"path", kept.path}, {"size", kept.size}}, 201);
}

task<std::optional<http::response>> list_dropped(services& with, exchange& asked) {
    const std::shared_ptr<session> one = session_of(with, asked);
    json list = json::array();
    for (const dropped_file& each : files_of(with, *one).list())
        list.push_back({{"from", each.from},
                        {"name", each.name},
                        {"path", each.path},
                        {"size", each.size},
                        {"time", time_text(each.time * second_ms)}});
    co_return answer_json({{"files", std::move(list)}});
}

task<std::optional<http::response>> remove_dropped(services& with, exchange& asked) {
    const std::shared_ptr<session> one = session_of(with, asked);
    const std::string from = query_text(asked, "from"), file = query_text(asked, "file");
    if (from.empty() || file.empty()) throw bad_request("from and file: must name the sender and its file");
    if (!files_of(with, *one).remove(from, file))
        co_return answer_error(404, fmt::format("there is no file \"{}\" of {} here", file, from));
    co_return http::response{.status = 204};
}

} // namespace pinfold
