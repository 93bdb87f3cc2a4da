#include "cage/verdict.hpp"

#include "spec/cage_spec.hpp"

#include <arpa/inet.h>
#include <array>
#include <cstring>
#include <pinfold/destination.h>
#include <sys/socket.h>

namespace pinfold {
namespace {

using words = std::array<std::uint32_t, 4>;

words words_of(const local_prefix& address) {
    words made{};
    std::memcpy(made.data(), address.address, sizeof address.address);
    for (std::uint32_t& word : made) word = ntohl(word);
    return made;
}

guard_answer ask_tries(const guards& whose, const local_prefix& address) {
    const local_answer found = whose.find_local(address);
    return {.rule = found.rule, .prefix = found.rule != PINFOLD_RULE_NONE ? found.prefix : local_prefix{}};
}

local_prefix carried4(const words& from) {
    local_prefix made{.family = AF_INET, .length = 32};
    const std::uint32_t address = htonl(from[3]);
    std::memcpy(made.address, &address, sizeof address);
    return made;
}

} // namespace

guard_answer ask_guards(const guards& whose, const guard_question& question) {
    const words address = words_of(question.address);
    int ask = 0;
    if (question.address.family == AF_INET) {
        const std::uint32_t rule = pinfold_guard4(address[0], question.stream, question.port, question.mode,
                                                  &ask);
        return ask != 0 ? ask_tries(whose, question.address) : guard_answer{.rule = rule};
    }
    const std::uint32_t rule = pinfold_guard6(address.data(), question.stream, question.port, question.mode,
                                              &ask);
    if (ask == 0) return {.rule = rule};
    return ask_tries(whose, pinfold_carries4(address.data()) ? carried4(address) : question.address);
}

std::uint32_t policy_mode(cage_mode mode) noexcept {
    switch (mode) {
    case cage_mode::caged: return PINFOLD_CAGED;
    case cage_mode::sealed: return PINFOLD_SEALED;
    }
    return PINFOLD_DENY_ALL;
}

} // namespace pinfold
