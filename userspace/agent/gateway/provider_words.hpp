// Which answers of a provider its session's owner is told of, and in which words.
#pragma once

#include "agent/provider_answer.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace pinfold {

struct provider_said {
    int status = 0;
    std::string retry_after; // the field; empty = none
    std::string error;       // what its body says of an error; empty = nothing
    bool is_turn = false;    // the request was one for an answer of the model
};

// Nothing where it says nothing of the provider: a request that is wrong in itself, a list of models.
[[nodiscard]] std::optional<provider_answer> judge_provider(const provider_said& what);
[[nodiscard]] provider_answer provider_broke_off(int status, std::string_view why);
[[nodiscard]] provider_answer provider_unreachable(std::string_view why);
[[nodiscard]] provider_answer provider_silent(std::chrono::milliseconds so_far, bool in_answer);

} // namespace pinfold
