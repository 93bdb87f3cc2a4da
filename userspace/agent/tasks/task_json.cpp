#include "agent/tasks/task_json.hpp"

#include "agent/sessions/event_text.hpp"
#include "agent/tasks/task_text.hpp"

#include <nlohmann/json.hpp>

namespace pinfold {

using nlohmann::json;

namespace {

constexpr const char* extension = "https://github.com/vpavlin/shrooms/blob/master/docs/a2a-tasks.md";

json text_parts(const std::string& text) {
    return json::array({{{"text", text}}});
}

// What an asker is to know of its state where the worker has said nothing.
std::string said_of(const task_row& task) {
    if (!task.summary.empty()) return task.summary;
    if (task.state == task_state::held)
        return "It waits for the owner of this session to allow it: the session does not take tasks from "
               "agents in "
               "cages by itself.";
    return {};
}

json history_of(const task_row& task, const task_view& view, bool listed) {
    json list = json::array();
    for (const task_message& each : view.asked)
        list.push_back({{"messageId", each.id},
                        {"contextId", view.context},
                        {"taskId", task.id},
                        {"role", "ROLE_USER"},
                        {"parts", text_parts(listed ? cut(each.text, listed_text) : each.text)}});
    return list;
}

json metadata_of(const task_row& task, const task_view& view) {
    json all{{"shrooms/session", view.session},
             {"shrooms/from", task.from},
             {"shrooms/acknowledged", task.acknowledged},
             {"shrooms/nudges", task.nudges},
             {"shrooms/stalled", task.stalled},
             {"shrooms/queued", view.queued},
             {"shrooms/expired", task.expired},
             {"shrooms/last_worker_line", cut(view.last_line, longest_last_line)},
             {"shrooms/caged", task.caged},
             {"shrooms/held", task.state == task_state::held}};
    if (!task.title.empty()) all["shrooms/title"] = task.title;
    if (task.last_nudge > 0) all["shrooms/last_nudge"] = time_text(task.last_nudge);
    return all;
}

json card(const std::string& name, const std::string& description, const std::string& url) {
    return {
        {"name", name},
        {"description", description},
        {"version", "1"},
        {"supportedInterfaces",
         json::array({{{"url", url}, {"protocolBinding", "JSONRPC"}, {"protocolVersion", "1.0"}}})},
        {"capabilities",
         {{"streaming", true},
          {"pushNotifications", false},
          {"extensions",
           json::array({{{"uri", extension},
                         {"required", false},
                         {"description", "AckTask and ListTasks; a task stays open until its worker says how "
                                         "it ended"}}})}}},
        {"defaultInputModes", json::array({"text/plain"})},
        {"defaultOutputModes", json::array({"text/plain"})}};
}

json skill(const std::string& host, const carded_session& of) {
    return {
        {"id", of.name},
        {"name", of.name},
        {"description", fmt::format("A {} session. Its card: http://{}/a2a/{}/.well-known/agent-card.json",
                                    of.harness, host, of.name)},
        {"tags", json::array({"shrooms", of.harness})}};
}

} // namespace

json status_json(const task_row& task, const task_view& view) {
    json status{{"state", wire_of(view.state)}, {"timestamp", time_text(task.changed)}};
    if (const std::string said = said_of(task); !said.empty())
        status["message"] = {{"messageId", task.message + "-status"},
                             {"contextId", view.context},
                             {"taskId", task.id},
                             {"role", "ROLE_AGENT"},
                             {"parts", text_parts(said)}};
    return status;
}

json task_json(const task_row& task, const task_view& view, bool listed) {
    json whole{{"id", task.id},
               {"contextId", view.context},
               {"status", status_json(task, view)},
               {"history", history_of(task, view, listed)},
               {"metadata", metadata_of(task, view)}};
    if (task.state == task_state::completed)
        whole["artifacts"] = json::array({{{"artifactId", task.message + "-result"},
                                           {"name", "result"},
                                           {"parts", text_parts(task.summary)}}});
    return whole;
}

void cut_history(task_view& shown, std::optional<std::size_t> most) {
    if (most && shown.asked.size() > *most)
        shown.asked.erase(shown.asked.begin(), shown.asked.end() - static_cast<std::ptrdiff_t>(*most));
}

json task_result(json task) {
    json whole = task;
    whole["task"] = std::move(task);
    return whole;
}

json request_json(const file_request& from) {
    return {{"from", from.from}, {"name", from.name}, {"size", from.size}, {"at", time_text(from.at)}};
}

json machine_card(const std::string& machine, const std::string& host,
                  std::span<const carded_session> sessions) {
    json whole = card(machine, fmt::format("The agent sessions of {}.", machine),
                      fmt::format("http://{}/a2a", host));
    whole["skills"] = json::array();
    for (const carded_session& each : sessions) whole["skills"].push_back(skill(host, each));
    return whole;
}

json session_card(const std::string& machine, const std::string& host, const carded_session& of) {
    json whole = card(fmt::format("{}/{}", machine, of.name),
                      fmt::format("The {} session {} of {}.", of.harness, of.name, machine),
                      fmt::format("http://{}/a2a/{}", host, of.name));
    whole["skills"] = json::array({skill(host, of)});
    return whole;
}

} // namespace pinfold
