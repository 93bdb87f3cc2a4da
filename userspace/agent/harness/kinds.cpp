#include "agent/harness/kinds.hpp"

#include <fmt/format.h>

namespace pinfold::harness {

const std::vector<const kind*>& all() {
    static const std::vector<const kind*> list{&claude(), &command(), &pi()};
    return list;
}

const kind* find(std::string_view name) {
    for (const kind* each : all()) {
        if (name == each->name()) return each;
    }
    return nullptr;
}

std::string note_of(const start& how) {
    std::string note = fmt::format(
        "You work in the session \"{}\" on the machine \"{}\". Its owner reads along and answers, often "
        "from elsewhere and later: say what you did and what you need in a few plain sentences.",
        how.session, how.machine);
    if (how.read_only_git)
        note += " The owner keeps .git/config and .git/hooks of this project read-only: to commit, branch, "
                "stash and fetch works, but git config, git remote add, an upstream branch (use --no-track) "
                "and hooks fail with \"Device or resource busy\" or \"Read-only file system\". That is no "
                "fault to work around: where such a change is needed, ask the owner for it.";
    return note;
}

} // namespace pinfold::harness
