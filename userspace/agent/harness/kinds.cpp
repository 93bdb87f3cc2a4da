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
    return fmt::format(
        "You work in the session \"{}\" on the machine \"{}\". Its owner reads along and answers, often "
        "from elsewhere and later: say what you did and what you need in a few plain sentences.",
        how.session, how.machine);
}

} // namespace pinfold::harness
