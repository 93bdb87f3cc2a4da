// Sessions made, moved, listed and limited from the command line.
#include "ctl/session_verbs.hpp"

#include "ctl/output.hpp"
#include "ctl/run_options.hpp"
#include "ctl/units.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <tuple>

namespace pinfold::ctl {

using nlohmann::json;

namespace {

void add_cage_options(po::options_description& to) {
    to.add_options()("caged", po::bool_switch(), "in a cage: its project, its conversations, the network")(
        "sealed", po::bool_switch(), "for what nobody vouches for: the internet and nothing local")(
        "image", po::value<std::string>()->value_name("IMAGE"), "what its cage starts from")(
        "nix", po::bool_switch(), "caged: with the machine's nix")("github", po::bool_switch(),
                                                                   "caged: with your GitHub login")(
        "shared", po::bool_switch(), "caged: with the folder that such sessions share")(
        "read-only-git", po::bool_switch(), "it cannot change .git/config and .git/hooks");
}

bool is_on(const parsed_line& line, const char* option) {
    return line.values[option].as<bool>();
}

// Null = uncaged.
json cage_of(const parsed_line& line) {
    if (is_on(line, "caged") && is_on(line, "sealed")) throw usage_error("--caged or --sealed, not both");
    if (!is_on(line, "caged") && !is_on(line, "sealed")) {
        for (const char* option : {"nix", "github", "shared"}) {
            if (is_on(line, option)) throw usage_error(fmt::format("--{} belongs to --caged", option));
        }
        if (is_on(line, "read-only-git")) throw usage_error("--read-only-git belongs to --caged or --sealed");
        return nullptr;
    }
    json cage = json::object();
    if (is_on(line, "sealed")) cage["sealed"] = true;
    if (line.has("image")) cage["image"] = line.text("image");
    for (const char* option : {"nix", "github", "shared"}) {
        if (is_on(line, option)) cage[option] = true;
    }
    if (is_on(line, "read-only-git")) cage["read_only_git"] = true;
    return cage;
}

std::string waits_for(const json& session) {
    std::string state = session.value("state", "");
    const json limited = session.value("limited", json::object()),
               provider = session.value("provider", json::object());
    if (limited.contains("reason"))
        return state + ", " + limited.value("reason", "") +
               (limited.contains("until") ? " until " + limited.value("until", "") : "");
    if (state != "waiting" && provider.contains("what"))
        state += ", provider " + (provider.contains("status") ? std::to_string(provider.value("status", 0))
                                                              : provider.value("what", ""));
    if (state != "waiting") return state;
    std::string tools;
    for (const json& each : session.value("prompts", json::array()))
        tools += (tools.empty() ? "" : ", ") + each.value("tool", "");
    return "waits: " + tools;
}

} // namespace

std::string session_path(const std::string& name) {
    const auto plain = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
               c == '_' || c == '-';
    };
    if (name.empty() || name.size() > 64 || !std::ranges::all_of(name, plain) || name.front() == '.')
        throw usage_error(fmt::format(
            "'{}' is no name of a session: 1 to 64 letters, digits, '.', '_' and '-'", printable(name)));
    return "/v1/sessions/" + name;
}

std::optional<json> find_session(client& agent, const std::string& name) {
    const reply answer = agent.ask("GET", session_path(name));
    if (answer.status == 404) return std::nullopt;
    return parse_answer(answer);
}

json sessions_of(client& agent) {
    const reply answer = agent.ask("GET", "/v1/sessions");
    if (answer.status != 200) return json::array(); // an agent that keeps none
    return parse_answer(answer).value("sessions", json::array());
}

void print_sessions(const json& list) {
    std::vector<std::vector<std::string>> rows{
        {"SESSION", "MODE", "HARNESS", "STATE", "TURNS", "LAST", "DIR"}};
    for (const json& each : list)
        rows.push_back({printable(each.value("name", "")), each.value("mode", ""), each.value("harness", ""),
                        printable(waits_for(each)), each.value("turns", json(0)).dump(),
                        each.value("last_time", ""), printable(each.value("dir", ""))});
    if (rows.size() > 1) print_table(rows);
}

void set_session_limits(client& agent, const std::string& name, const parsed_line& line, bool as_json) {
    json session = parse_answer(agent.ask("GET", session_path(name)));
    if (line.has("memory") || line.has("cpus")) {
        const json cage = session.value("cage", json::object());
        const json wanted{{"memory", line.has("memory") ? line.text("memory") : cage.value("memory", "")},
                          {"cpus", line.has("cpus") ? line.text("cpus") : cage.value("cpus", "")}};
        session = agent.post(session_path(name) + "/cage/limits", wanted);
    }
    const json cage = session.value("cage", json());
    if (cage.is_null()) fail("\"{}\" is uncaged: it has no limits", name);
    const json limits{{"memory", cage.value("memory", "")}, {"cpus", cage.value("cpus", "")}};
    if (as_json) return print_json(limits);
    const auto said = [](const json& value) {
        return value == "" ? std::string("the machine's") : printable(value.get<std::string>());
    };
    fmt::print("memory {}, CPUs {}\n", said(limits["memory"]), said(limits["cpus"]));
}

int new_verb(common_options& options, const words& arguments) {
    po::options_description own("Options");
    own.add_options()("harness", po::value<std::string>()->value_name("NAME"),
                      "claude, pi or command (claude)")("auto-approve", po::bool_switch(),
                                                        "allow what it asks for, by itself")(
        "keep-running", po::bool_switch(), "never ended as idle")(
        "resume", po::value<std::string>()->value_name("ID"), "go on with this conversation");
    add_cage_options(own);
    const auto line = read_verb(options, arguments, "pinfold new NAME [DIR] [options] [-- CMD…]", own, 2);
    if (!line) return 0;
    if (line->names.empty()) throw usage_error("which name? pinfold new NAME [DIR]");
    std::ignore = session_path(line->names.front());
    json body{{"name", line->names.front()},
              {"dir", std::filesystem::absolute(line->names.size() > 1 ? line->names[1] : ".")
                          .lexically_normal()
                          .native()},
              {"auto_approve", is_on(*line, "auto-approve")},
              {"keep_running", is_on(*line, "keep-running")}};
    const std::string harness = line->has("harness") ? line->text("harness")
                                                     : (line->command.empty() ? "claude" : "command");
    body["harness"] = harness;
    if (!line->command.empty()) body["command"] = line->command;
    if (line->has("resume")) body["resume"] = line->text("resume");
    const json cage = cage_of(*line);
    if (!cage.is_null()) body["cage"] = cage;
    const json made = agent_of(options).post("/v1/sessions", body);
    if (options.json)
        print_json(made);
    else
        fmt::print("{} ({}, {}) in {}\n", made.value("name", ""), made.value("mode", ""),
                   made.value("harness", ""), printable(made.value("dir", "")));
    return 0;
}

int move_verb(common_options& options, const words& arguments) {
    po::options_description own("Options");
    own.add_options()("uncaged", po::bool_switch(), "out of its cage");
    add_cage_options(own);
    const auto line = read_verb(options, arguments, "pinfold move NAME --uncaged|--caged|--sealed", own,
                                all_are_names);
    if (!line) return 0;
    if (line->names.size() != 1) throw usage_error("one name, please: pinfold move NAME --caged");
    const json cage = cage_of(*line);
    if (cage.is_null() != is_on(*line, "uncaged"))
        throw usage_error("where to? --uncaged, --caged or --sealed");
    const json moved = agent_of(options).post(session_path(line->names.front()) + "/cage", {{"cage", cage}});
    if (options.json)
        print_json(moved);
    else
        fmt::print("{} is {} now\n", moved.value("name", ""), moved.value("mode", ""));
    return 0;
}

} // namespace pinfold::ctl
