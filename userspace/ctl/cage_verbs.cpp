#include "ctl/output.hpp"
#include "ctl/run_options.hpp"
#include "ctl/session_verbs.hpp"
#include "ctl/units.hpp"
#include "ctl/verbs.hpp"

#include <nlohmann/json.hpp>
#include <tuple>

namespace pinfold::ctl {

using nlohmann::json;

namespace {

std::string text_of(const json& from, const char* key) {
    const auto found = from.find(key);
    if (found == from.end() || found->is_null()) return "-";
    return printable(found->is_string() ? found->get<std::string>() : found->dump());
}

std::string memory_of(const json& cage) {
    const std::uint64_t bytes = cage.value("memory", std::uint64_t{0});
    return bytes == 0 ? "-" : format_bytes(bytes);
}

void print_cages(const json& list) {
    std::vector<std::vector<std::string>> rows{
        {"NAME", "MODE", "STATE", "MEMORY", "PROCESSES", "REFUSED", "STARTED", "DIR"}};
    for (const json& each : list)
        rows.push_back({text_of(each, "name"), text_of(each, "mode"), text_of(each, "state"), memory_of(each),
                        text_of(each, "processes"), text_of(each, "denials"), text_of(each, "started"),
                        text_of(each, "dir")});
    if (rows.size() > 1) print_table(rows);
}

std::string value_text(const std::string& key, const json& value) {
    if (key == "memory" && value.is_number())
        return value == 0 ? "-" : format_bytes(value.get<std::uint64_t>());
    if (key != "limits") return printable(value.is_string() ? value.get<std::string>() : value.dump());
    return fmt::format("memory {}, {} CPUs, {} processes",
                       format_bytes(value.value("memory", std::uint64_t{0})), value.value("cpus", 0.0),
                       value.value("pids", 0U));
}

void print_cage(const json& cage) {
    for (const auto& [key, value] : cage.items()) {
        if (key == "notes") continue;
        fmt::print("{:<12}{}\n", key, value_text(key, value));
    }
    for (const json& note : cage.value("notes", json::array()))
        fmt::print("{:<12}{}\n", "note", value_text("", note));
}

std::string only_name(const parsed_line& line, const char* verb) {
    if (line.names.size() != 1) throw usage_error(fmt::format("one name, please: pinfold {} NAME", verb));
    return checked_name(line.names.front());
}

void no_names(const parsed_line& line) {
    if (!line.names.empty())
        throw usage_error(fmt::format("'{}' is not expected here", printable(line.names.front())));
}

} // namespace

int ls_verb(common_options& options, const words& arguments) {
    const auto line = read_verb(options, arguments, "pinfold ls", {}, all_are_names);
    if (!line) return 0;
    no_names(*line);
    client agent = agent_of(options);
    const json sessions = sessions_of(agent);
    const reply answer = agent.ask("GET", "/v1/cages");
    // Without a keeper the agent still lists what it knows: that is shown, and the error with it.
    json body = json::parse(answer.body, nullptr, false);
    const bool has_list = body.is_object() && body.contains("cages");
    if (!has_list) parse_answer(answer);
    if (!sessions.empty()) body["sessions"] = sessions;
    if (!options.json) print_sessions(sessions);
    if (options.json)
        print_json(body);
    else
        print_cages(body.at("cages"));
    if (answer.status == 200) return 0;
    if (!options.json) print_error(body.value("error", "the list is not complete"), false);
    return 1;
}

int inspect_verb(common_options& options, const words& arguments) {
    const auto line = read_verb(options, arguments, "pinfold inspect NAME", {}, all_are_names);
    if (!line) return 0;
    const json cage = agent_of(options).get("/v1/cages/" + only_name(*line, "inspect"));
    if (options.json)
        print_json(cage);
    else
        print_cage(cage);
    return 0;
}

int rm_verb(common_options& options, const words& arguments) {
    const auto line = read_verb(options, arguments, "pinfold rm NAME…", {}, all_are_names);
    if (!line) return 0;
    if (line->names.empty()) throw usage_error("which ones? pinfold rm NAME…");
    for (const std::string& name : line->names) std::ignore = session_path(name);
    client agent = agent_of(options);
    json removed = json::array();
    int result = 0;
    for (const std::string& name : line->names) {
        try {
            // A session has a cage of another name, so what is asked for is one or the other.
            const bool is_session = find_session(agent, name).has_value();
            agent.remove(is_session ? session_path(name) : "/v1/cages/" + checked_name(name));
            removed.push_back(name);
        } catch (const refusal& why) { // the others can still go
            print_error(why.what(), options.json);
            result = 1;
        }
    }
    if (options.json) print_json({{"removed", removed}});
    return result;
}

int limits_verb(common_options& options, const words& arguments) {
    const auto line = read_verb(options, arguments, "pinfold limits NAME [options]", limit_description(),
                                all_are_names);
    if (!line) return 0;
    if (line->names.size() != 1) throw usage_error("one name, please: pinfold limits NAME");
    const json wanted = limits_of(*line);
    client agent = agent_of(options);
    if (find_session(agent, line->names.front())) {
        set_session_limits(agent, line->names.front(), *line, options.json);
        return 0;
    }
    const std::string path = "/v1/cages/" + only_name(*line, "limits");
    const json limits = wanted.empty() ? agent.get(path).value("limits", json())
                                       : agent.post(path + "/limits", wanted);
    if (limits.is_null()) fail("\"{}\" is uncaged: it has no limits", line->names.front());
    if (options.json)
        print_json(limits);
    else
        fmt::print("{}\n", value_text("limits", limits));
    return 0;
}

int plan_verb(common_options& options, const words& arguments) {
    const auto line = read_verb(options, arguments, "pinfold plan [options] -- CMD…", run_description(), 0);
    if (!line) return 0;
    const json plan = agent_of(options).post("/v1/plan", run_request_of(*line, find_owner(options)));
    if (options.json) {
        print_json(plan);
        return 0;
    }
    std::size_t number = 0;
    for (const json& step : plan.at("steps"))
        fmt::print("{:3} {}\n", ++number, printable(step.get<std::string>()));
    return 0;
}

} // namespace pinfold::ctl
