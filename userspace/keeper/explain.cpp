// What the guards answer to a destination, for `pinfold why`: from the maps that they read.

#include "base/error.hpp"
#include "cage/verdict.hpp"
#include "keeper/keeper.hpp"

#include <cstring>
#include <netinet/in.h>

namespace pinfold {
namespace {

guard_question question_of(const wire::explain& asked, std::uint32_t mode) {
    if (asked.family != AF_INET && asked.family != AF_INET6)
        fail("{} is no family of internet addresses", asked.family);
    if (asked.port > UINT16_MAX) fail("{} is no port", asked.port);
    guard_question question{.mode = mode,
                            .stream = asked.protocol == IPPROTO_TCP,
                            .port = static_cast<std::uint16_t>(asked.port)};
    question.address.family = static_cast<std::uint8_t>(asked.family);
    question.address.length = asked.family == AF_INET ? 32 : 128;
    std::memcpy(question.address.address, asked.address.data(), asked.family == AF_INET ? 4 : 16);
    return question;
}

} // namespace

wire::explained keeper::explain(const client& from, const wire::explain& asked) {
    wire::explained told{.mode = policy_mode(asked.mode), .guarded = true};
    if (asked.cage != 0) {
        const held_cage& held = owned(from, asked.cage);
        told.mode = guards_.mode_of(held.built->group().fd());
        told.guarded = guards_.complete(asked.cage);
    }
    const guard_answer found = ask_guards(guards_, question_of(asked, told.mode));
    told.rule = found.rule;
    told.prefix_family = found.prefix.family;
    told.prefix_length = found.prefix.length;
    std::memcpy(told.prefix.data(), found.prefix.address, told.prefix.size());
    return told;
}

} // namespace pinfold
