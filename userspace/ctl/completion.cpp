#include "ctl/completion.hpp"

#include "ctl/session_verbs.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>

namespace pinfold::ctl {

using nlohmann::json;

namespace {

// Files are completed by the shell itself, where nothing else is.
constexpr const char* bash_script =
    R"(# bash completion of pinfold: source it, or put it into /usr/share/bash-completion/completions
_pinfold() {
    local word
    COMPREPLY=()
    while IFS= read -r word; do
        COMPREPLY+=("$word")
    done < <(command "${COMP_WORDS[0]}" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o bashdefault -o default -F _pinfold pinfold
)";

constexpr const char* zsh_script = R"(#compdef pinfold
# zsh completion of pinfold: source it, or put it into a directory of $fpath as _pinfold
_pinfold() {
    local -a found
    found=("${(@f)$(command $words[1] complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    found=(${found:#})
    if (( $#found )); then
        compadd -a found
    else
        _files
    fi
}
if [[ $funcstack[1] == _pinfold ]]; then
    _pinfold "$@"
else
    compdef _pinfold pinfold
fi
)";

enum class wanted : std::uint8_t { nothing, sessions, cages, both };

struct shape {
    const char* verb;
    wanted names;
    std::array<const char*, 7> words; // that may stand behind it, beside names
};

constexpr std::array shapes{
    shape{"exec", wanted::cages, {}},
    shape{"send", wanted::sessions, {}},
    shape{"attach", wanted::sessions, {}},
    shape{"logs", wanted::sessions, {}},
    shape{"approve", wanted::sessions, {}},
    shape{"deny", wanted::sessions, {}},
    shape{"move", wanted::sessions, {}},
    shape{"report", wanted::sessions, {}},
    shape{"set", wanted::sessions, {}},
    shape{"inspect", wanted::cages, {}},
    shape{"rm", wanted::both, {}},
    shape{"limits", wanted::both, {}},
    shape{"why", wanted::cages, {}},
    shape{"denials", wanted::cages, {}},
    shape{"outbox", wanted::nothing, {"list", "send"}},
    shape{"outbox list", wanted::sessions, {}},
    shape{"outbox send", wanted::sessions, {}},
    shape{
        "tasks", wanted::sessions, {"allow", "allow-always", "decline", "cancel", "answer", "ack", "nudge"}},
    shape{"files", wanted::sessions, {"allow", "deny"}},
    shape{"files allow", wanted::sessions, {}},
    shape{"files deny", wanted::sessions, {}},
    shape{"completion", wanted::nothing, {"bash", "zsh"}},
};

const shape* find_shape(std::string_view verb) {
    const auto found = std::ranges::find_if(shapes, [&](const shape& each) { return verb == each.verb; });
    return found == shapes.end() ? nullptr : &*found;
}

void add_names(client& agent, const char* path, const char* list, std::set<std::string>& into) {
    const reply answer = agent.ask("GET", path);
    const json body = json::parse(answer.body, nullptr, false);
    if (!body.is_object()) return;
    for (const json& each : body.value(list, json::array())) {
        std::string name = each.is_object() ? each.value("name", "") : "";
        const bool plain = std::ranges::all_of(name, [](char c) { return c > ' ' && c < 127; });
        if (plain && !name.empty()) into.insert(std::move(name)); // it goes into a shell's line
    }
}

std::set<std::string> names_of(const common_options& options, wanted which) {
    std::set<std::string> names;
    if (which == wanted::nothing) return names;
    try {
        client agent(connect_to_agent(options, find_owner(options), false));
        if (which != wanted::cages) add_names(agent, "/v1/sessions", "sessions", names);
        if (which != wanted::sessions) add_names(agent, "/v1/cages", "cages", names);
    } catch (const std::exception&) {
        names.clear(); // no agent, no names: nobody wants a message in the middle of a line
    }
    return names;
}

words values_of(std::string_view option) {
    if (option == "--harness") return {"claude", "pi", "command"};
    return {};
}

} // namespace

words complete(const std::vector<completed_verb>& verbs, const words& typed) {
    const std::string last = typed.empty() ? "" : typed.back();
    words found;
    const auto offer = [&](const std::string& word) {
        if (word.starts_with(last)) found.push_back(word);
    };
    // What of the line is said already: where its socket is, and which verb.
    common_options common;
    po::options_description options = common_description(common);
    const words before(typed.begin(), typed.empty() ? typed.end() : typed.end() - 1);
    if (std::ranges::find(before, "--") != before.end()) return found; // a command of its own
    words said;
    for (std::size_t i = 0; i < before.size(); ++i) {
        if (before[i] == "--api" && i + 1 < before.size())
            common.api = before[++i];
        else if (before[i] == "--owner" && i + 1 < before.size())
            common.owner = before[++i];
        else if (!before[i].starts_with('-'))
            said.push_back(before[i]);
    }
    if (said.empty()) {
        for (const completed_verb& each : verbs) offer(each.name);
        if (last.starts_with('-')) {
            for (const auto& each : options.options()) offer("--" + each->long_name());
        }
        return found;
    }
    const auto verb = std::ranges::find_if(verbs,
                                           [&](const completed_verb& each) { return each.name == said[0]; });
    if (said[0] == "help") {
        for (const completed_verb& each : verbs) offer(each.name);
        return found;
    }
    if (verb == verbs.end()) return found;
    if (!before.empty()) {
        const words values = values_of(before.back());
        for (const std::string& each : values) offer(each);
        if (!values.empty()) return found;
    }
    if (last.starts_with('-')) {
        for (const std::string& each : options_of(verb->act)) offer(each);
        return found;
    }
    const shape* how = said.size() > 1 ? find_shape(said[0] + " " + said[1]) : nullptr;
    const bool is_first = said.size() == (how != nullptr ? 2U : 1U);
    if (how == nullptr) how = find_shape(said[0]);
    if (how == nullptr || (!is_first && said[0] != "rm")) return found;
    for (const char* each : how->words) {
        if (each != nullptr) offer(each);
    }
    for (const std::string& each : names_of(common, how->names)) offer(each);
    return found;
}

int completion_verb(common_options& options, const words& arguments) {
    const auto line = read_verb(options, arguments, "pinfold completion bash|zsh", {}, all_are_names);
    if (!line) return 0;
    const std::string shell = line->names.size() == 1 ? line->names.front() : "";
    if (shell != "bash" && shell != "zsh") throw usage_error("which shell? pinfold completion bash|zsh");
    fmt::print("{}", shell == "bash" ? bash_script : zsh_script);
    return 0;
}

} // namespace pinfold::ctl
