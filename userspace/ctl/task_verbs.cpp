// What other agents ask of sessions: tasks listed, allowed, declined, answered; files and who may send them.
#include "ctl/task_verbs.hpp"

#include "ctl/output.hpp"
#include "ctl/session_verbs.hpp"
#include "ctl/units.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <tuple>

namespace pinfold::ctl {

using nlohmann::json;

namespace {

constexpr const char* tasks_usage = "pinfold tasks [-a] [SESSION]\n"
                                    "       pinfold tasks allow|allow-always|ack|nudge TASK\n"
                                    "       pinfold tasks decline|cancel TASK [REASON…]\n"
                                    "       pinfold tasks answer TASK TEXT…";
constexpr const char* files_usage = "pinfold files [SESSION]\n"
                                    "       pinfold files allow|deny SESSION MACHINE/SESSION|MACHINE/*";

struct task_act {
    const char* word;
    const char* route;
    const char* text; // the key that further words go to; null = none are taken
    bool needs_text;
    const char* done;
};
constexpr std::array acts{
    task_act{"allow", "allow", nullptr, false, "may begin"},
    task_act{"allow-always", "allow", nullptr, false, "may begin, and so may all further ones of its asker"},
    task_act{"decline", "decline", "reason", false, "is declined"},
    task_act{"cancel", "cancel", "reason", false, "is canceled"},
    task_act{"answer", "answer", "text", true, "has its answer"},
    task_act{"nudge", "nudge", nullptr, false, "was called to mind"},
    task_act{"ack", "ack", nullptr, false, "is acknowledged"},
};

std::string joined(const words& list, std::size_t from) {
    std::string all;
    for (std::size_t i = from; i < list.size(); ++i) all += (i > from ? " " : "") + list[i];
    return all;
}

// "MACHINE/SESSION:ID" is what other machines call it; here it is "SESSION:ID".
std::string task_path(const std::string& id) {
    const std::string own = id.substr(std::min(id.find('/') + 1, id.size()));
    const auto plain = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               std::string_view("._~:@+=-").find(c) != std::string_view::npos;
    };
    if (own.empty() || own.find(':') == std::string::npos || !std::ranges::all_of(own, plain))
        throw usage_error(fmt::format("'{}' is no task: 'pinfold tasks' lists them", printable(id)));
    return "/v1/tasks/" + own;
}

bool meta_flag(const json& task, const char* key) {
    return task.value("metadata", json::object()).value(key, false);
}

std::string text_of(const json& message) {
    std::string all;
    for (const json& each : message.value("parts", json::array())) all += each.value("text", "");
    return all;
}

std::string state_of(const json& task) {
    if (meta_flag(task, "shrooms/held")) return "held";
    if (meta_flag(task, "shrooms/stalled")) return "stalled";
    if (meta_flag(task, "shrooms/expired")) return "expired";
    std::string state = task.value("status", json::object()).value("state", "");
    constexpr std::string_view prefix = "TASK_STATE_";
    if (state.starts_with(prefix)) state.erase(0, prefix.size());
    for (char& c : state) c = c == '_' ? '-' : static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
    return state;
}

bool is_over(const json& task) {
    const std::string state = task.value("status", json::object()).value("state", "");
    return state == "TASK_STATE_COMPLETED" || state == "TASK_STATE_FAILED" ||
           state == "TASK_STATE_CANCELED" || state == "TASK_STATE_REJECTED";
}

std::string title_of(const json& task) {
    std::string title = task.value("metadata", json::object()).value("shrooms/title", "");
    if (!title.empty()) return title;
    const json history = task.value("history", json::array());
    const std::string text = history.empty() ? "" : text_of(history.front());
    return text.substr(0, text.find('\n'));
}

int list_tasks(common_options& options, const words& names, bool all) {
    const std::string query = names.empty() ? "" : "?session=" + names.front();
    if (!names.empty()) std::ignore = session_path(names.front());
    const json answer = agent_of(options).get("/v1/tasks" + query);
    json list = json::array();
    for (const json& each : answer.value("tasks", json::array())) {
        if (all || !is_over(each) || !meta_flag(each, "shrooms/acknowledged")) list.push_back(each);
    }
    if (options.json) {
        print_json({{"tasks", list}});
        return 0;
    }
    std::vector<std::vector<std::string>> rows{{"TASK", "STATE", "FROM", "SINCE", "WHAT"}};
    bool any_held = false;
    for (const json& each : list) {
        const std::string from = each.value("metadata", json::object()).value("shrooms/from", "");
        any_held = any_held || meta_flag(each, "shrooms/held");
        rows.push_back({printable(each.value("id", "")), state_of(each),
                        printable(from.empty() ? "this machine" : from),
                        each.value("status", json::object()).value("timestamp", ""),
                        printable(title_of(each)).substr(0, 60)});
    }
    if (rows.size() > 1) print_table(rows);
    if (any_held && !options.quiet)
        fmt::print("held: 'pinfold tasks allow TASK', 'allow-always TASK' or 'decline TASK REASON'\n");
    return 0;
}

int act_on(common_options& options, const task_act& act, const words& names) {
    if (names.size() < 2) throw usage_error(fmt::format("which task? pinfold tasks {} TASK", act.word));
    const std::string path = task_path(names[1]) + "/" + act.route, text = joined(names, 2);
    if (act.text == nullptr && names.size() > 2)
        throw usage_error(fmt::format("one task, please: pinfold tasks {} TASK", act.word));
    if (act.needs_text && text.empty())
        throw usage_error(fmt::format("what is said? pinfold tasks {} TASK TEXT", act.word));
    json body = json::object();
    if (act.text != nullptr && !text.empty()) body[act.text] = text;
    if (std::string_view(act.word) == "allow-always") body["always"] = true;
    const json answer = agent_of(options).post(path, body);
    if (options.json)
        print_json(answer);
    else
        fmt::print("{} {}\n", printable(answer.value("task", json::object()).value("id", "")), act.done);
    return 0;
}

// ---- files ----

int list_files(common_options& options, const words& names) {
    if (names.empty()) throw usage_error("which session? pinfold files SESSION");
    client agent = agent_of(options);
    const json session = agent.get(session_path(names.front()));
    const json dropped = agent_of(options).get(session_path(names.front()) + "/drop");
    if (options.json) {
        print_json({{"files", dropped.value("files", json::array())},
                    {"accept_files_from", session.value("accept_files_from", json::array())},
                    {"file_requests", session.value("file_requests", json::array())}});
        return 0;
    }
    std::vector<std::vector<std::string>> rows{{"FROM", "SIZE", "TIME", "PATH"}};
    for (const json& each : dropped.value("files", json::array()))
        rows.push_back({printable(each.value("from", "")), each.value("size", json(0)).dump(),
                        each.value("time", ""), printable(each.value("path", ""))});
    if (rows.size() > 1) print_table(rows);
    for (const json& each : session.value("accept_files_from", json::array()))
        fmt::print("takes files from {}\n", printable(each.get<std::string>()));
    for (const json& each : session.value("file_requests", json::array()))
        fmt::print("refused {} from {}: 'pinfold files allow {} {}' lets it send\n",
                   printable(each.value("name", "")), printable(each.value("from", "")), names.front(),
                   printable(each.value("from", "")));
    return 0;
}

int change_senders(common_options& options, const words& names, bool allow) {
    if (names.size() != 3)
        throw usage_error("which session, and which sender? pinfold files allow SESSION MACHINE/SESSION");
    const std::string path = session_path(names[1]);
    const json session = agent_of(options).get(path);
    auto list = session.value("accept_files_from", json::array()).get<std::vector<std::string>>();
    std::erase(list, names[2]);
    if (allow) list.push_back(names[2]);
    json body{{"accept_files_from", list}};
    if (!allow) body["ignore_file_request"] = names[2];
    const json answer = agent_of(options).post(path + "/settings", body);
    if (options.json)
        print_json(answer);
    else
        fmt::print("{} takes {}files from {}\n", names[1], allow ? "" : "no ", printable(names[2]));
    return 0;
}

} // namespace

int tasks_verb(common_options& options, const words& arguments) {
    po::options_description own("Options");
    own.add_options()("all,a", po::bool_switch(), "also those that are over and acknowledged");
    const auto line = read_verb(options, arguments, tasks_usage, own, all_are_names);
    if (!line) return 0;
    const words& names = line->names;
    for (const task_act& each : acts) {
        if (!names.empty() && names.front() == each.word) return act_on(options, each, names);
    }
    if (names.size() > 1)
        throw usage_error(
            fmt::format("'{}' is nothing that can be done with a task; 'pinfold tasks --help' tells more",
                        printable(names.front())));
    return list_tasks(options, names, line->values["all"].as<bool>());
}

int files_verb(common_options& options, const words& arguments) {
    const po::options_description own("Options");
    const auto line = read_verb(options, arguments, files_usage, own, all_are_names);
    if (!line) return 0;
    const words& names = line->names;
    if (!names.empty() && (names.front() == "allow" || names.front() == "deny"))
        return change_senders(options, names, names.front() == "allow");
    return list_files(options, names);
}

} // namespace pinfold::ctl
