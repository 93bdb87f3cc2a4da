#include "ctl/ctl.hpp"

#include "ctl/completion.hpp"
#include "ctl/outbox_verbs.hpp"
#include "ctl/output.hpp"
#include "ctl/session_verbs.hpp"
#include "ctl/task_verbs.hpp"
#include "ctl/verbs.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>
#include <unistd.h>

namespace pinfold::ctl {

using nlohmann::json;

namespace {

struct verb {
    const char* name;
    const char* purpose;
    int (*act)(common_options&, const words&);
    int failed; // exit code where it could not be done
};

constexpr std::array verbs{
    verb{"run", "run a command in a cage of its own", run_verb, exit_not_started},
    verb{"exec", "run one more command in a cage", exec_verb, exit_not_started},
    verb{"new", "make a session", new_verb, 1},
    verb{"send", "say something to a session and show its answer", send_verb, 1},
    verb{"attach", "follow a session and talk to it", attach_verb, 1},
    verb{"logs", "show what happened in a session", logs_verb, 1},
    verb{"approve", "allow what a session waits for", approve_verb, 1},
    verb{"deny", "deny what a session waits for", deny_verb, 1},
    verb{"move", "move a session into a cage or out of it", move_verb, 1},
    verb{"set", "show or change what you set on a session", set_verb, 1},
    verb{"tasks", "list what other agents ask; allow, decline or answer it", tasks_verb, 1},
    verb{"files", "list files from other agents, and who may send them", files_verb, 1},
    verb{"outbox", "list or send what a sealed session made", outbox_verb, 1},
    verb{"report", "show what a session left that could run later", report_verb, 1},
    verb{"ls", "list sessions and cages", ls_verb, 1},
    verb{"inspect", "show all that is known of a cage", inspect_verb, 1},
    verb{"rm", "end sessions or cages and delete their files", rm_verb, 1},
    verb{"limits", "show or change the limits of a session's cage, or of a cage", limits_verb, 1},
    verb{"plan", "show the steps that run would take", plan_verb, 1},
    verb{"denials", "list what was refused", denials_verb, 1},
    verb{"why", "explain why a destination is refused or not", why_verb, 1},
    verb{"doctor", "try what this machine enforces", doctor_verb, 1},
    verb{"completion", "print what a shell completes pinfold by", completion_verb, 1},
    verb{"version", "show the versions", version_verb, 1},
};

const verb* find_verb(const std::string& name) {
    for (const verb& each : verbs) {
        if (name == each.name) return &each;
    }
    return nullptr;
}

void print_help() {
    fmt::print("pinfold: cages for programs, enforced by the kernel\n\nUsage: pinfold [options] VERB …\n\n");
    for (const verb& each : verbs) fmt::print("  {:<10} {}\n", each.name, each.purpose);
    common_options ignored;
    std::ostringstream text;
    text << common_description(ignored);
    fmt::print("\n{}\nExample: pinfold run --sealed -t -- bash\n'pinfold VERB --help' tells more; pinfold(1) "
               "tells all.\n",
               text.str());
}

void warn_root(const owner& whose, const common_options& options) {
    if (whose.uid != 0 || options.quiet || options.json) return;
    fmt::print(
        stderr,
        "{} the owner is root: what a program may change of its owner's is root's own; name another with "
        "--owner USER\n",
        paint(stderr, colour::yellow, "pinfold: warning:"));
}

int help(const words& rest) {
    if (rest.empty()) {
        print_help();
        return 0;
    }
    const verb* asked = find_verb(rest.front());
    if (asked == nullptr)
        throw usage_error("there is no verb '" + rest.front() + "'; 'pinfold help' lists them");
    common_options options;
    return asked->act(options, {"--help"});
}

// For the scripts of `completion`: one word a line.
int print_completions(const words& rest) {
    std::vector<completed_verb> known;
    known.reserve(verbs.size() + 1);
    for (const verb& each : verbs) known.push_back({.name = each.name, .act = each.act});
    known.push_back({.name = "help"});
    words typed(rest.begin() + (!rest.empty() && rest.front() == "--" ? 1 : 0), rest.end());
    for (const std::string& each : complete(known, typed)) fmt::print("{}\n", each);
    return 0;
}

// Where --help is to be collected and not printed.
words* collected_options = nullptr;

// Options before the verb go behind it: every verb reads them.
int act(const words& arguments, common_options& common, int& failed) {
    common_options ignored;
    po::options_description options = common_description(ignored);
    options.add_options()("version", "");
    const parsed_line before = parse(arguments, options, 0);
    if (before.has("version")) return version_verb(ignored, {});
    if (before.command.empty()) {
        print_help();
        return before.has("help") ? 0 : exit_usage;
    }
    const std::string& name = before.command.front();
    words rest(before.command.begin() + 1, before.command.end());
    if (name == "help") return help(rest);
    if (name == "complete") return print_completions(rest);
    const verb* wanted = find_verb(name);
    if (wanted == nullptr) throw usage_error("there is no verb '" + name + "'; 'pinfold help' lists them");
    failed = wanted->failed;
    rest.insert(rest.begin(), arguments.begin(),
                arguments.end() - static_cast<std::ptrdiff_t>(before.command.size()));
    return wanted->act(common, rest);
}

// For errors in the options themselves, when they could not be read.
bool wants_json(const words& arguments) {
    for (const std::string& each : arguments) {
        if (each == "--") return false;
        if (each == "--json") return true;
    }
    return false;
}

} // namespace

client agent_of(const common_options& options) {
    const owner whose = find_owner(options);
    warn_root(whose, options);
    return client(connect_to_agent(options, whose));
}

std::optional<parsed_line> read_verb(common_options& options, const words& arguments, const char* usage,
                                     const po::options_description& own, std::size_t names) {
    po::options_description all;
    all.add(own).add(common_description(options));
    parsed_line line = parse(arguments, all, names);
    if (!line.has("help")) return line;
    if (collected_options != nullptr) {
        for (const auto& each : all.options()) collected_options->push_back("--" + each->long_name());
        return std::nullopt;
    }
    std::ostringstream text;
    text << all;
    fmt::print("Usage: {}\n{}", usage, text.str());
    return std::nullopt;
}

words options_of(int (*verb)(common_options&, const words&)) {
    words found;
    common_options ignored;
    collected_options = &found;
    try {
        std::ignore = verb(ignored, {"--help"});
    } catch (const std::exception&) {
        found.clear();
    }
    collected_options = nullptr;
    return found;
}

void print_json(const json& what) {
    fmt::print("{}\n", what.dump(-1, ' ', false, json::error_handler_t::replace));
}

int main_of(const words& arguments) {
    common_options common;
    int failed = 1;
    try {
        return act(arguments, common, failed);
    } catch (const usage_error& error) {
        print_error(error.what(), wants_json(arguments));
        return failed == exit_not_started ? failed : exit_usage;
    } catch (const std::exception& error) {
        print_error(error.what(), common.json);
        return failed;
    }
}

} // namespace pinfold::ctl
