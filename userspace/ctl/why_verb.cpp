#include "ctl/output.hpp"
#include "ctl/run_options.hpp"
#include "ctl/session_verbs.hpp"
#include "ctl/units.hpp"
#include "ctl/verbs.hpp"

#include <nlohmann/json.hpp>

namespace pinfold::ctl {

using nlohmann::json;

namespace {

constexpr const char* usage =
    "pinfold why NAME|--sealed|--caged tcp:ADDRESS:PORT|udp:ADDRESS:PORT|ping:ADDRESS";

// As a value of a query: what is not plain is written as %XX.
std::string escaped(std::string_view text) {
    std::string result;
    for (const char c : text) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                           c == '.' || c == '-' || c == '_';
        result += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    return result;
}

// A session's cage is named otherwise, and is there only while it works: what counts is its mode.
std::string mode_of_session(const json& session) {
    const auto cage = session.find("cage");
    if (cage == session.end() || !cage->is_object()) return "uncaged";
    return cage->value("sealed", false) ? "sealed" : "caged";
}

json ask(client& agent, const parsed_line& line) {
    const bool sealed = line.values["sealed"].as<bool>();
    const bool caged = line.values["caged"].as<bool>();
    if (sealed && caged) throw usage_error("--sealed and --caged: choose one");
    if (line.names.size() != (sealed || caged ? 1U : 2U)) throw usage_error(usage);
    const std::string target = "target=" + escaped(line.names.back());
    if (sealed || caged)
        return agent.get(fmt::format("/v1/why?mode={}&{}", sealed ? "sealed" : "caged", target));
    const std::string name = checked_name(line.names.front());
    const auto session = find_session(agent, name);
    if (!session) return agent.get(fmt::format("/v1/cages/{}/why?{}", name, target));
    json told = agent.get(fmt::format("/v1/why?mode={}&{}", mode_of_session(*session), target));
    told["cage"] = name;
    return told;
}

std::string text_of(const json& from, const char* key) {
    const auto found = from.find(key);
    return found != from.end() && found->is_string() ? printable(found->get<std::string>()) : "";
}

// "198.51.100.0/24 by tailscale0 via 100.64.0.2: a route of the machine's own (table 52)"
std::string origin_text(const json& origin) {
    std::string text = text_of(origin, "text");
    const auto add = [&](const char* between, const std::string& what) {
        if (!what.empty()) text += (text.empty() ? "" : between) + what;
    };
    add(" by ", text_of(origin, "device"));
    add(" via ", text_of(origin, "via"));
    add(": ", text_of(origin, "name"));
    if (const std::string source = text_of(origin, "source"); !source.empty()) text += " (" + source + ")";
    // 254 and 255 are the tables that everybody has.
    const auto table = origin.value("table", 0U);
    if (table != 0 && table != 254 && table != 255) text += fmt::format(" (table {})", table);
    return text;
}

void print_row(const char* name, const std::string& text) {
    if (!text.empty()) fmt::print("  {:<8}{}\n", name, text);
}

void print_why(const json& told) {
    const bool allowed = told.value("allowed", false);
    const std::string mode = text_of(told, "mode");
    const std::string who = told.value("cage", json(nullptr)).is_string()
                                ? text_of(told, "cage") + " (" + mode + ")"
                                : "a " + mode + " cage";
    fmt::print("{} {} {}: {}\n", who,
               paint(stdout, allowed ? colour::green : colour::red, allowed ? "may reach" : "may not reach"),
               text_of(told, "target"), text_of(told, "why"));
    const std::string wall = text_of(told, "wall");
    if (!allowed) print_row("by", (wall.empty() ? "" : "the " + wall + "; ") + text_of(told, "feels"));
    print_row("rule", text_of(told, "rule"));
    if (told.contains("origin") && told["origin"].is_object()) print_row("from", origin_text(told["origin"]));
    print_row("remedy", text_of(told, "remedy"));
}

} // namespace

int why_verb(common_options& options, const words& arguments) {
    po::options_description own("Options");
    own.add_options()                                                   //
        ("sealed", po::bool_switch(), "of any sealed cage, not of one") //
        ("caged", po::bool_switch(), "of any caged one");
    const auto line = read_verb(options, arguments, usage, own, all_are_names);
    if (!line) return 0;
    client agent = agent_of(options);
    const json told = ask(agent, *line);
    if (options.json)
        print_json(told);
    else
        print_why(told);
    return 0;
}

} // namespace pinfold::ctl
