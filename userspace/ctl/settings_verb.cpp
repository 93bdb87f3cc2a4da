// What the owner sets on a session: shown, or changed.
#include "ctl/output.hpp"
#include "ctl/session_verbs.hpp"
#include "ctl/units.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>

namespace pinfold::ctl {

namespace {

using nlohmann::json;

enum class kind : std::uint8_t { yes_or_no, list };

struct setting {
    const char* option;
    const char* key; // of the API
    kind is;
    const char* help;
};

constexpr std::array settings{
    setting{"auto-approve", "auto_approve", kind::yes_or_no, "allow what it asks for, by itself"},
    setting{"keep-running", "keep_running", kind::yes_or_no, "never end it as idle"},
    setting{"star", "starred", kind::yes_or_no, "mark it in lists"},
    setting{"accept-caged", "accept_caged", kind::yes_or_no, "take tasks of caged agents without asking you"},
    setting{"accept-caged-from", "accept_caged_from", kind::list, "caged agents whose tasks it takes"},
    setting{"accept-files-from", "accept_files_from", kind::list, "agents that may send it files"},
    setting{"meshes", "meshes", kind::list, "show it on these meshes only"},
};

bool read_yes(const setting& which, const std::string& text) {
    if (text == "yes" || text == "on") return true;
    if (text == "no" || text == "off") return false;
    throw usage_error(fmt::format("--{}: must be yes or no, not '{}'", which.option, text));
}

json read_list(const std::string& text) {
    json list = json::array();
    std::size_t at = 0;
    while (at < text.size()) {
        const std::size_t end = std::min(text.find(',', at), text.size());
        if (end > at) list.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    return list;
}

std::string shown(const setting& which, const json& session) {
    const json value = session.value(which.key, json());
    if (which.is == kind::yes_or_no) return value.is_boolean() && value.get<bool>() ? "yes" : "no";
    std::string text;
    for (const json& each : value.is_array() ? value : json::array())
        text += (text.empty() ? "" : ",") + printable(each.is_string() ? each.get<std::string>() : "");
    if (!text.empty()) return text;
    return std::string_view(which.key) == "meshes" ? "all" : "nobody";
}

} // namespace

int set_verb(common_options& options, const words& arguments) {
    po::options_description own("Options");
    for (const setting& each : settings)
        own.add_options()(each.option,
                          po::value<std::string>()->value_name(each.is == kind::list ? "LIST" : "yes|no"),
                          each.help);
    const auto line = read_verb(options, arguments,
                                "pinfold set SESSION [options]: shows or changes its settings; a LIST is "
                                "separated by commas, and \"\" is none",
                                own, 1);
    if (!line) return 0;
    if (line->names.size() != 1) throw usage_error("one session, please: pinfold set SESSION");
    json change = json::object();
    for (const setting& each : settings) {
        if (!line->has(each.option)) continue;
        const std::string text = line->text(each.option);
        change[each.key] = each.is == kind::list ? read_list(text) : json(read_yes(each, text));
    }
    const std::string path = session_path(line->names.front());
    client agent = agent_of(options);
    const json session = change.empty() ? agent.get(path) : agent.post(path + "/settings", change);
    if (options.json) {
        print_json(session);
        return 0;
    }
    for (const setting& each : settings) fmt::print("{:<18} {}\n", each.option, shown(each, session));
    return 0;
}

} // namespace pinfold::ctl
