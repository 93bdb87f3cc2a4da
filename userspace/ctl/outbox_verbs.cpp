#include "ctl/outbox_verbs.hpp"

#include "ctl/output.hpp"
#include "ctl/session_verbs.hpp"
#include "ctl/units.hpp"

#include <nlohmann/json.hpp>

namespace pinfold::ctl {

using nlohmann::json;

namespace {

constexpr const char* outbox_usage = "pinfold outbox list SESSION\n"
                                     "       pinfold outbox send [--only FOLDER] SESSION MACHINE/SESSION";

std::string text_of(const json& from, const char* key) {
    return printable(from.value(key, ""));
}

void print_outbox(const json& all) {
    std::vector<std::vector<std::string>> rows{{"FILE", "SIZE", "TIME"}};
    for (const json& each : all.value("files", json::array()))
        rows.push_back({text_of(each, "name"), format_bytes(each.value("size", std::uint64_t{0})),
                        text_of(each, "time")});
    if (rows.size() > 1) print_table(rows);
    const json left = all.value("left_out", json::array());
    for (const json& each : left)
        fmt::print("left out: {} ({})\n", text_of(each, "name"), text_of(each, "why"));
    if (const auto more = all.value("left_out_more", std::uint64_t{0}); more > 0)
        fmt::print("left out: {} more\n", more);
    fmt::print(stderr, "in {}, from a sealed session: read it as untrusted text, and open no links in it\n",
               text_of(all, "outbox"));
}

void print_report(const json& all) {
    std::vector<std::vector<std::string>> rows{{"STATE", "KIND", "PATH", "WHAT"}};
    for (const json& each : all.value("found", json::array())) {
        std::string what = text_of(each, "what");
        if (what.empty()) what = text_of(each, "why");
        rows.push_back({text_of(each, "state"), text_of(each, "kind"), text_of(each, "path"), what});
        for (const json& detail : each.value("details", json::array()))
            rows.push_back(
                {"", "", "", printable(detail.is_string() ? detail.get<std::string>() : detail.dump())});
    }
    if (rows.size() > 1)
        print_table(rows);
    else
        fmt::print("nothing that could run later was left in {}\n", text_of(all, "dir"));
    if (all.value("since", json()).is_null())
        fmt::print(stderr, "nobody looked before the session ran, so nothing here can be called new\n");
    if (!all.value("complete", false))
        fmt::print(
            stderr,
            "the project is larger than was looked at, or a part could not be read: there may be more\n");
}

} // namespace

int outbox_verb(common_options& options, const words& arguments) {
    po::options_description own("Options");
    own.add_options()("only", po::value<std::string>()->value_name("FOLDER"), "send: this folder of it");
    const auto line = read_verb(options, arguments, outbox_usage, own, all_are_names);
    if (!line) return 0;
    const auto& names = line->names;
    if (names.size() == 2 && names[0] == "list" && !line->has("only")) {
        const json all = agent_of(options).get(session_path(names[1]) + "/outbox");
        if (options.json)
            print_json(all);
        else
            print_outbox(all);
        return 0;
    }
    if (names.size() != 3 || names[0] != "send")
        throw usage_error(fmt::format("what of it? {}", outbox_usage));
    json body{{"to", names[2]}};
    if (line->has("only")) body["only"] = line->text("only");
    const json sent = agent_of(options).post(session_path(names[1]) + "/outbox/send", body);
    if (options.json)
        print_json(sent);
    else
        fmt::print("{}\n", text_of(sent, "result"));
    return 0;
}

int report_verb(common_options& options, const words& arguments) {
    po::options_description own("Options");
    own.add_options()("all,a", po::bool_switch(), "also what was there before the session");
    const auto line = read_verb(options, arguments, "pinfold report [--all] SESSION", own, all_are_names);
    if (!line) return 0;
    if (line->names.size() != 1) throw usage_error("one session, please: pinfold report SESSION");
    const std::string query = line->values["all"].as<bool>() ? "?all=1" : "";
    const json all = agent_of(options).get(session_path(line->names.front()) + "/report" + query);
    if (options.json)
        print_json(all);
    else
        print_report(all);
    return 0;
}

} // namespace pinfold::ctl
