// Tasks as their owner and their workers see them: listed, reported on, answered, allowed or declined.
#include "agent/api/task_routes.hpp"
#include "agent/proxy/json_shape.hpp"
#include "agent/tasks/task_board.hpp"

#include <nlohmann/json.hpp>

namespace pinfold {

using nlohmann::json;

namespace {

json read_object(const exchange& asked) {
    if (asked.request.body.empty()) return json::object();
    if (const auto wrong = judge_json_shape(asked.request.body)) throw bad_request("body: " + *wrong);
    json whole = json::parse(asked.request.body, nullptr, false);
    if (!whole.is_object()) throw bad_request("body: must be a JSON object");
    return whole;
}

std::string text_at(const json& from, const char* key) {
    const auto found = from.find(key);
    if (found == from.end() || found->is_null()) return {};
    if (!found->is_string()) throw bad_request(fmt::format("{}: must be a string", key));
    return found->get<std::string>();
}

bool flag_at(const json& from, const char* key) {
    const auto found = from.find(key);
    if (found == from.end() || found->is_null()) return false;
    if (!found->is_boolean()) throw bad_request(fmt::format("{}: must be true or false", key));
    return found->get<bool>();
}

// The task of the path. Throws task_refusal (404), also where its session is hidden from the caller.
task_row task_of(services& with, const exchange& asked) {
    task_row task = with.tasks->find(asked.id);
    if (!with.tasks->shows(task, asked.shows)) task_board::no_such_task(asked.id);
    return task;
}

http::response shown(services& with, const task_row& row) {
    return answer_json({{"task", task_json(row, with.tasks->view(row))}});
}

} // namespace

task<std::optional<http::response>> list_tasks(services& with, exchange& asked) {
    if (!caged_session(asked.request).empty()) co_return answer_error(403, "a caged agent lists no tasks");
    const auto wanted = asked.request.query.find("session");
    json list = json::array();
    for (const task_row& each : with.tasks->kept().all()) {
        if (!with.tasks->shows(each, asked.shows)) continue;
        const task_view view = with.tasks->view(each);
        if (wanted == asked.request.query.end() || view.session == wanted->second)
            list.push_back(task_json(each, view, true));
    }
    co_return answer_json({{"tasks", std::move(list)}});
}

// task_update. Of a cage its own agent has said which session it is; a program outside is the owner's.
task<std::optional<http::response>> report_task(services& with, exchange& asked) {
    const asker who = co_await with.tasks->who({.address = asked.by, .caged = caged_session(asked.request)});
    if (!who.local) co_return answer_error(403, "a task is reported on at its worker's own machine");
    const task_row task = task_of(with, asked);
    const json body = read_object(asked);
    const std::string claimed = text_at(body, "session");
    const std::string worker = with.tasks->view(task, false).session;
    if ((!claimed.empty() && claimed != worker) || (who.caged && who.session != worker))
        co_return answer_error(403, fmt::format("task {} is not this session's", task.id));
    co_await with.tasks->bring_results(task.id, text_at(body, "state"));
    const task_row after = with.tasks->report(task.id, text_at(body, "state"), text_at(body, "summary"));
    co_return answer_json(task_json(after, with.tasks->view(after)));
}

task<std::optional<http::response>> acknowledge_task(services& with, exchange& asked) {
    co_return shown(with, with.tasks->acknowledge(task_of(with, asked)));
}

task<std::optional<http::response>> nudge_task(services& with, exchange& asked) {
    co_return shown(with, with.tasks->nudge(task_of(with, asked)));
}

task<std::optional<http::response>> cancel_task(services& with, exchange& asked) {
    task_row task = task_of(with, asked);
    const std::string why = text_at(read_object(asked), "reason");
    co_return shown(with, with.tasks->cancel(std::move(task), why, true, asked.by));
}

task<std::optional<http::response>> answer_task(services& with, exchange& asked) {
    task_row task = task_of(with, asked);
    std::string text = text_at(read_object(asked), "text");
    if (text.find_first_not_of(" \t\r\n") == std::string::npos)
        throw bad_request("text: must say what is answered");
    const asker who = co_await with.tasks->who({.address = asked.by});
    co_return shown(with, with.tasks->answer(std::move(task), std::move(text), who.shown()));
}

task<std::optional<http::response>> allow_task(services& with, exchange& asked) {
    task_row task = task_of(with, asked);
    const bool always = flag_at(read_object(asked), "always");
    co_return shown(with, with.tasks->allow(std::move(task), always, asked.by));
}

task<std::optional<http::response>> decline_task(services& with, exchange& asked) {
    task_row task = task_of(with, asked);
    const std::string reason = text_at(read_object(asked), "reason");
    co_return shown(with, with.tasks->decline(std::move(task), reason, asked.by));
}

shown_tasks::shown_tasks(services& with) {
    if (with.tasks == nullptr) return;
    count(with.tasks->kept().open());
    requests_ = with.tasks->kept().requests();
}

shown_tasks::shown_tasks(services& with, const session& only) {
    if (with.tasks == nullptr) return;
    const std::int64_t id = only.row().id;
    count(with.tasks->kept().open(id));
    for (file_request& each : with.tasks->kept().requests(id)) requests_.emplace(id, std::move(each));
}

void shown_tasks::count(std::span<const task_row> open) {
    for (const task_row& each : open) {
        counts& of = counts_[each.session];
        ++(each.state == task_state::held ? of.held : of.open);
        if (each.stalled) ++of.stalled;
    }
}

void shown_tasks::add(const session& to, json& into) const {
    if (const auto found = counts_.find(to.row().id); found != counts_.end()) {
        const auto& [open, stalled, held] = found->second;
        if (open > 0) into["tasks_open"] = open;
        if (stalled > 0) into["tasks_stalled"] = stalled;
        if (held > 0) into["tasks_held"] = held;
    }
    const auto [first, last] = requests_.equal_range(to.row().id);
    if (first == last) return;
    json& requests = into["file_requests"] = json::array();
    for (auto each = first; each != last; ++each) requests.push_back(request_json(each->second));
}

std::string caged_session(const http::request& request) {
    const auto found = request.fields.find("x-shrooms-caged");
    if (found == request.fields.end()) return {};
    return found->second.empty() ? "?" : found->second;
}

bool may_come_from_cage(const http::request& request) {
    if (request.method != "POST") return false;
    std::string_view path = request.path;
    const auto is_one_segment = [](std::string_view text) {
        return !text.empty() && text.find('/') == std::string_view::npos;
    };
    const auto take = [&](std::string_view before) {
        const bool is_there = path.starts_with(before);
        if (is_there) path.remove_prefix(before.size());
        return is_there;
    };
    if (path == "/a2a") return true;
    if (take("/a2a/") || take("/v1/tasks/")) return is_one_segment(path);
    constexpr std::string_view drop = "/drop";
    return take("/v1/sessions/") && path.ends_with(drop) &&
           is_one_segment(path.substr(0, path.size() - drop.size()));
}

} // namespace pinfold
