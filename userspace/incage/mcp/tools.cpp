#include "incage/mcp/tools.hpp"

#include "base/text.hpp"
#include "base/unique_fd.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <stdexcept>
#include <sys/random.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace pinfold::mcp {

using nlohmann::json;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t largest_file = std::size_t{100} << 20;

[[noreturn]] void refuse(const std::string& what) {
    throw std::runtime_error(what);
}

std::string text_at(const json& from, const char* key) {
    const auto found = from.is_object() ? from.find(key) : from.end();
    return from.is_object() && found != from.end() && found->is_string() ? found->get<std::string>()
                                                                         : std::string();
}

std::string needed(const json& from, const char* key) {
    std::string text = text_at(from, key);
    if (text.empty()) refuse(std::string("'") + key + "' is missing");
    return text;
}

std::string dump(const json& from) {
    return from.dump(-1, ' ', false, json::error_handler_t::replace);
}

struct agent_name {
    std::string machine, session;
};

// "MACHINE/SESSION"; a bare session is one of this machine.
agent_name split(const std::string& text) {
    const std::size_t slash = text.find('/');
    if (slash == std::string::npos) return {"localhost", text};
    return {text.substr(0, slash), text.substr(slash + 1)};
}

std::string make_message_id() {
    std::array<unsigned char, 8> random{};
    if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
        refuse("no random numbers");
    std::array<char, 32> time{};
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    std::strftime(time.data(), time.size(), "%Y%m%dT%H%M%SZ", ::gmtime_r(&now, &utc));
    std::string made = std::string("cli-") + time.data() + "-";
    constexpr std::string_view digits = "0123456789abcdef";
    for (const unsigned char byte : random) made += {digits[byte >> 4U], digits[byte & 15U]};
    return made;
}

// "TASK_STATE_INPUT_REQUIRED" -> "input required".
std::string state_word(std::string state) {
    if (state.starts_with("TASK_STATE_")) state.erase(0, 11);
    std::ranges::transform(state, state.begin(), [](char c) {
        return c == '_' ? ' ' : c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    });
    return state;
}

std::string session_line(const std::string& machine, const json& one) {
    return machine + "/" + text_at(one, "name") + "\t" + text_at(one, "harness") + ", " +
           text_at(one, "state") + ", in " + text_at(one, "dir");
}

void add_parts(std::string& to, const json& holder) {
    const auto parts = holder.is_object() ? holder.find("parts") : holder.end();
    if (!holder.is_object() || parts == holder.end() || !parts->is_array()) return;
    for (const json& each : *parts)
        if (const std::string text = text_at(each, "text"); !text.empty()) to += "\n\n" + text;
}

// "task MACHINE/ID: STATE", what its supervision says, then what the worker said.
tool_result tell_task(const json& task, const std::string& machine) {
    if (!task.is_object()) refuse("the agent answered without a task");
    const json status = task.value("status", json::object()), about = task.value("metadata", json::object());
    const std::string state = text_at(status, "state");
    std::string text = "task " + machine + "/" + text_at(task, "id") + ": " + state_word(state);
    const auto is = [&](const char* key) {
        return about.is_object() && about.value(key, json()) == json(true);
    };
    if (is("shrooms/held"))
        text += "\n(held: the owner of that machine has not said yet whether it may be done)";
    if (is("shrooms/queued")) text += "\n(waits for the tasks before it)";
    if (is("shrooms/stalled")) text += "\n(stalled: the worker says nothing any more)";
    if (is("shrooms/expired")) text += "\n(ended: it was open for too long)";
    if (status.is_object() && status.contains("message")) add_parts(text, status["message"]);
    if (task.contains("artifacts") && task["artifacts"].is_array())
        for (const json& each : task["artifacts"]) add_parts(text, each);
    return {text, state == "TASK_STATE_FAILED" || state == "TASK_STATE_REJECTED"};
}

json result_of(const answer& got, const char* method) {
    const json reply = json::parse(got.body, nullptr, false);
    if (got.status != 200 || !reply.is_object())
        refuse(std::string(method) + ": " +
               (reply.is_object() && reply.contains("error") && reply["error"].is_string()
                    ? reply["error"].get<std::string>()
                    : "the agent answered " + std::to_string(got.status)));
    if (const auto error = reply.find("error"); error != reply.end() && error->is_object())
        refuse(std::string(method) + ": " + text_at(*error, "message") + " (" +
               dump(error->value("code", json())) + ")");
    return reply.value("result", json::object());
}

std::string read_file(const std::string& path) {
    const unique_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    struct stat found{};
    if (!file || ::fstat(file.get(), &found) != 0) refuse("open " + path + ": " + std::strerror(errno));
    if (!S_ISREG(found.st_mode)) refuse(path + " is not a file");
    if (static_cast<std::size_t>(found.st_size) > largest_file) refuse(path + " is larger than 100 MiB");
    std::string bytes(static_cast<std::size_t>(found.st_size), '\0');
    std::size_t at = 0;
    while (at < bytes.size()) {
        const ssize_t size = ::read(file.get(), bytes.data() + at, bytes.size() - at);
        if (size < 0 && errno == EINTR) continue;
        if (size <= 0) break;
        at += static_cast<std::size_t>(size);
    }
    bytes.resize(at);
    return bytes;
}

json property(const char* type, const char* description) {
    return {{"type", type}, {"description", description}};
}

json tool(const char* name, const char* description, const json& properties, const json& required,
          bool reads_only) {
    return {{"name", name},
            {"description", description},
            {"inputSchema", {{"type", "object"}, {"properties", properties}, {"required", required}}},
            {"annotations", {{"readOnlyHint", reads_only}}}};
}

} // namespace

json tools::list() {
    const json to = property("string", "who: MACHINE/SESSION, as list_agents shows it");
    const json task = property("string", "the task: MACHINE/SESSION:ID, as ask_agent told it");
    return json::array(
        {tool("list_agents", "The other agents that can be asked for work.", json::object(), json::array(),
              true),
         tool("ask_agent",
              "Asks another agent for work. It may be held until that machine's owner allows it.",
              {{"to", to},
               {"text", property("string", "what to do, with all that the other needs to know")},
               {"title", property("string", "one line for lists")},
               {"task", property("string", "an open task, to answer or to add to it")},
               {"wait", property("boolean", "wait until it is done, at most ten minutes (true)")}},
              {"to", "text"}, false),
         tool("task_status", "How a task that was asked for stands, and its result.", {{"task", task}},
              {"task"}, true),
         tool("task_update", "Reports on a task that this session was given.",
              {{"task", property("string", "the task, as it was given: SESSION:ID")},
               {"state", {{"type", "string"}, {"enum", {"done", "blocked", "failed"}}}},
               {"summary", property("string", "the result, the question, or the reason")}},
              {"task", "state", "summary"}, false),
         tool("send_file", "Sends a file to another agent, which must allow it.",
              {{"to", to},
               {"path", property("string", "the file, at most 100 MiB")},
               {"note", property("string", "what it is")}},
              {"to", "path"}, false),
         tool("task_ack", "Takes note of a result: it needs no more attention.", {{"task", task}}, {"task"},
              false)});
}

tool_result tools::call(const std::string& name, const json& arguments) const {
    try {
        if (name == "list_agents") return list_agents();
        if (name == "ask_agent") return ask_agent(arguments);
        if (name == "task_status") return task_call("GetTask", arguments);
        if (name == "task_ack") return task_call("AckTask", arguments);
        if (name == "task_update") return task_update(arguments);
        if (name == "send_file") return send_file(arguments);
        return {"there is no tool '" + name + "'", true};
    } catch (const std::exception& error) {
        return {error.what(), true};
    }
}

// All machines at once: one that is off costs four seconds, not four for each.
tool_result tools::list_agents() const {
    const std::vector<machine> machines = to_.machines();
    std::vector<std::vector<std::string>> found(machines.size());
    {
        std::vector<std::jthread> asking;
        asking.reserve(machines.size());
        for (std::size_t i = 0; i < machines.size(); ++i)
            asking.emplace_back([this, &into = found[i], &at = machines[i]] {
                try {
                    const json list = json::parse(to_.get(at, "/v1/sessions", 4s).body, nullptr, false);
                    const json sessions = list.is_object() ? list.value("sessions", json::array()) : list;
                    for (const json& each : sessions) into.push_back(session_line(at.name, each));
                } catch (const std::exception&) {
                    into.clear(); // off, or an agent of another kind
                }
            });
    }
    std::vector<std::string> lines;
    for (const auto& each : found) lines.insert(lines.end(), each.begin(), each.end());
    std::ranges::sort(lines);
    std::string text;
    for (const std::string& each : lines) text += (text.empty() ? "" : "\n") + each;
    return {text.empty() ? "no other agent was found" : text, false};
}

tool_result tools::ask_agent(const json& with) const {
    const agent_name to = split(needed(with, "to"));
    json message{{"messageId", make_message_id()},
                 {"role", "ROLE_USER"},
                 {"parts", json::array({{{"text", needed(with, "text")}}})},
                 {"metadata", {{"shrooms/from", session_}}}};
    const std::string task = text_at(with, "task"), title = text_at(with, "title");
    if (!task.empty())
        message["taskId"] = split(task).session;
    else if (!title.empty())
        message["metadata"]["shrooms/title"] = title;
    const bool wait = !(with.is_object() && with.value("wait", json(true)) == json(false));
    const json asked{{"jsonrpc", "2.0"},
                     {"id", 1},
                     {"method", "SendMessage"},
                     {"params", {{"message", message}, {"configuration", {{"blocking", wait}}}}}};
    const machine at = to_.find(to.machine);
    const answer got = to_.post(at, "/a2a/" + percent_encoded(to.session), dump(asked),
                                wait ? std::chrono::seconds(11min) : 30s);
    return tell_task(result_of(got, "SendMessage").value("task", json()), at.name);
}

tool_result tools::task_call(const char* method, const json& with) const {
    const agent_name which = split(needed(with, "task"));
    const machine at = to_.find(which.machine);
    const json asked{{"jsonrpc", "2.0"}, {"id", 1}, {"method", method}, {"params", {{"id", which.session}}}};
    return tell_task(result_of(to_.post(at, "/a2a", dump(asked), 30s), method).value("task", json()),
                     at.name);
}

tool_result tools::task_update(const json& with) const {
    const std::string task = split(needed(with, "task")).session;
    const json report{
        {"state", needed(with, "state")}, {"summary", text_at(with, "summary")}, {"session", session_}};
    const machine own = to_.machines().front();
    const answer got = to_.post(own, "/v1/tasks/" + percent_encoded(task), dump(report), 30s);
    const json reply = json::parse(got.body, nullptr, false);
    if (got.status != 200) refuse(text_at(reply, "error").empty() ? got.body : text_at(reply, "error"));
    return {tell_task(reply, own.name).text, false};
}

tool_result tools::send_file(const json& with) const {
    const agent_name to = split(needed(with, "to"));
    const std::string path = needed(with, "path"), note = text_at(with, "note");
    const std::string bytes = read_file(path);
    std::string query = "?name=" + percent_encoded(std::filesystem::path(path).filename().native());
    if (!note.empty()) query += "&note=" + percent_encoded(note);
    const machine at = to_.find(to.machine);
    const answer got = to_.post(at, "/v1/sessions/" + percent_encoded(to.session) + "/drop" + query, bytes,
                                10min, "application/octet-stream");
    const json reply = json::parse(got.body, nullptr, false);
    if (got.status / 100 != 2) refuse(text_at(reply, "error").empty() ? got.body : text_at(reply, "error"));
    return {"sent; kept there at " + text_at(reply, "path"), false};
}

} // namespace pinfold::mcp
