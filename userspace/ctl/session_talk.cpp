// Talking to a session from the command line: send, attach, logs, approve, deny.
#include "ctl/output.hpp"
#include "ctl/session_events.hpp"
#include "ctl/session_verbs.hpp"
#include "ctl/units.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <thread>
#include <unistd.h>

namespace pinfold::ctl {

using nlohmann::json;

namespace {

std::string one_name(const parsed_line& line, const char* usage) {
    if (line.names.empty()) throw usage_error(fmt::format("which session? {}", usage));
    return line.names.front();
}

std::string joined(const std::vector<std::string>& list, std::size_t from) {
    std::string all;
    for (std::size_t i = from; i < list.size(); ++i) all += (i > from ? " " : "") + list[i];
    return all;
}

std::string all_of_input() {
    std::string text;
    std::array<char, 65536> buffer{};
    for (ssize_t got = 0; (got = ::read(STDIN_FILENO, buffer.data(), buffer.size())) > 0;)
        text.append(buffer.data(), static_cast<std::size_t>(got));
    return text;
}

std::string kind_of(const json& event) {
    return event.value("kind", "");
}

// 0 when the turn went well, 1 when it did not, exit_waits when somebody has to answer first; nothing while it goes on.
std::optional<int> outcome_of(const json& event) {
    const json data = event.value("data", json::object());
    if (kind_of(event) == "stopped") return data.value("reason", "") == "finished" ? 0 : 1;
    if (kind_of(event) != "claude") return std::nullopt;
    const std::string type = data.value("type", "");
    if (type == "result") return data.value("is_error", false) ? 1 : 0;
    const json request = data.value("request", json::object());
    if (type == "control_request" && request.value("subtype", "") == "can_use_tool") return exit_waits;
    return std::nullopt;
}

// Follows the turn that this message begins. An answered permission is followed by more: with auto-approve it goes on.
int follow_turn(const common_options& options, const std::string& name, std::uint64_t after, bool approves) {
    event_printer printer(name, options.json);
    std::optional<int> outcome;
    printer.seen = [&](const json& event) {
        outcome = outcome_of(event);
        if (approves && outcome == exit_waits) {
            const json data = event.value("data", json::object());
            if (data.value("request", json::object()).value("tool_name", "") != "AskUserQuestion")
                outcome.reset();
        }
        return !outcome;
    };
    agent_of(options).follow(fmt::format("{}/events?after={}", session_path(name), after),
                             [&](std::string_view part) { return printer.put(part); });
    if (!outcome) fail("the agent ended the stream; 'pinfold logs {}' shows what came of it", name);
    return *outcome;
}

int answer(common_options& options, const words& arguments, bool allow) {
    const char* usage = allow ? "pinfold approve NAME [ID] [--answer TEXT]"
                              : "pinfold deny NAME [ID] [--message TEXT]";
    po::options_description own("Options");
    if (allow)
        own.add_options()("answer", po::value<std::string>()->value_name("TEXT"),
                          "what is answered to a question");
    else
        own.add_options()("message", po::value<std::string>()->value_name("TEXT"), "why not");
    const auto line = read_verb(options, arguments, usage, own, all_are_names);
    if (!line) return 0;
    const std::string name = one_name(*line, usage);
    client agent = agent_of(options);
    const json session = agent.get(session_path(name));
    const json prompts = session.value("prompts", json::array());
    if (prompts.empty()) fail("\"{}\" waits for nothing", name);
    if (line->names.size() < 2 && prompts.size() > 1)
        fail("\"{}\" waits for {} answers: name one of them; 'pinfold attach {}' shows them", name,
             prompts.size(), name);
    json prompt = prompts.front();
    for (const json& each : prompts) {
        if (line->names.size() > 1 && each.value("id", "") == line->names[1]) prompt = each;
    }
    const std::string id = line->names.size() > 1 ? line->names[1] : prompt.value("id", "");
    if (id.find_first_of("/?#% ") != std::string::npos) throw usage_error("that is no id of a prompt");
    json body{{"allow", allow}};
    if (!allow && line->has("message")) body["message"] = line->text("message");
    if (allow && prompt.value("tool", "") == "AskUserQuestion") {
        if (!line->has("answer")) throw usage_error("it is a question: --answer TEXT");
        for (const json& each : prompt.value("input", json::object()).value("questions", json::array()))
            body["answers"][each.value("question", "")] = line->text("answer");
    }
    agent.post(session_path(name) + "/prompts/" + id, body);
    return 0;
}

} // namespace

int send_verb(common_options& options, const words& arguments) {
    const char* usage = "pinfold send NAME TEXT… (or the text on standard input)";
    po::options_description own("Options");
    own.add_options()("no-wait", po::bool_switch(), "do not wait for the answer");
    const auto line = read_verb(options, arguments, usage, own, all_are_names);
    if (!line) return 0;
    const std::string name = one_name(*line, usage);
    std::string text = joined(line->names, 1);
    if (!line->command.empty()) text += (text.empty() ? "" : " ") + joined(line->command, 0);
    if (text.empty()) text = all_of_input();
    client agent = agent_of(options);
    const json before = agent.get(session_path(name));
    agent.post(session_path(name) + "/messages", {{"text", text}});
    if (line->values["no-wait"].as<bool>()) return 0;
    return follow_turn(options, name, before.value("last_seq", std::uint64_t{0}),
                       before.value("auto_approve", false));
}

int logs_verb(common_options& options, const words& arguments) {
    const char* usage = "pinfold logs [-f] [-n NUMBER] NAME";
    po::options_description own("Options");
    own.add_options()("follow,f", po::bool_switch(), "go on with what is to come")(
        "lines,n", po::value<unsigned>()->value_name("NUMBER"), "only the last so many events");
    const auto line = read_verb(options, arguments, usage, own, all_are_names);
    if (!line) return 0;
    const std::string name = one_name(*line, usage);
    client agent = agent_of(options);
    const std::uint64_t last = agent.get(session_path(name)).value("last_seq", std::uint64_t{0});
    const bool follows = line->values["follow"].as<bool>();
    if (last == 0 && !follows) return 0;
    std::string path = session_path(name) + "/events?after=0";
    if (line->values.count("lines") > 0)
        path += fmt::format("&tail={}", line->values["lines"].as<unsigned>());
    event_printer printer(name, options.json);
    printer.seen = [&](const json& event) { return follows || event.value("seq", std::uint64_t{0}) < last; };
    agent.follow(path, [&](std::string_view part) { return printer.put(part); });
    return 0;
}

// What it says on the terminal, and each line that is typed as a message. Ends with the input.
int attach_verb(common_options& options, const words& arguments) {
    const char* usage = "pinfold attach NAME";
    const auto line = read_verb(options, arguments, usage, {}, all_are_names);
    if (!line) return 0;
    const std::string name = one_name(*line, usage);
    client agent = agent_of(options);
    const json session = agent.get(session_path(name));
    for (const json& each : session.value("prompts", json::array()))
        print_question(name, each.value("id", ""), each.value("tool", ""), each.value("input", json()));
    std::jthread reader([&](const std::stop_token& stop) {
        event_printer printer(name, options.json);
        printer.seen = [&](const json&) { return !stop.stop_requested(); };
        const auto path = fmt::format("{}/events?after=0&tail=20", session_path(name));
        try {
            agent_of(options).follow(path, [&](std::string_view part) { return printer.put(part); });
        } catch (const std::exception& error) {
            print_error(error.what(), options.json);
        }
        if (!stop.stop_requested()) ::_exit(0); // the session or its agent is gone
    });
    std::string held;
    std::array<char, 4096> buffer{};
    for (ssize_t got = 0; (got = ::read(STDIN_FILENO, buffer.data(), buffer.size())) > 0;) {
        held.append(buffer.data(), static_cast<std::size_t>(got));
        for (std::size_t end = 0; (end = held.find('\n')) != std::string::npos; held.erase(0, end + 1)) {
            const std::string text = held.substr(0, end);
            if (text.find_first_not_of(" \t") == std::string::npos) continue;
            try {
                agent_of(options).post(session_path(name) + "/messages", {{"text", text}});
            } catch (const refusal& why) {
                print_error(why.what(), options.json);
            }
        }
    }
    std::fflush(stdout);
    ::_exit(0); // the reader waits for the next event
}

int approve_verb(common_options& options, const words& arguments) {
    return answer(options, arguments, true);
}

int deny_verb(common_options& options, const words& arguments) {
    return answer(options, arguments, false);
}

} // namespace pinfold::ctl
