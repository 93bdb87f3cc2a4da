// What came of one request to a model's provider, as the gateway or the harness saw it.
#pragma once

#include <cstdint>
#include <string>

namespace pinfold {

enum class provider_outcome : std::uint8_t {
    refused,     // by a status or an error that is not the request's own fault
    broke_off,   // in the middle of the answer
    unreachable, // no answer came
    silent,      // none has come for long, and it is still waited for
    answered,
};

struct provider_answer {
    provider_outcome outcome = provider_outcome::refused;
    int status = 0;   // 0 = none came
    std::string text; // for people: what failed, and what is done about it
};

} // namespace pinfold
