#include "agent/gateway/provider_words.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <fmt/format.h>
#include <utility>

namespace pinfold {

namespace {

constexpr std::size_t longest_said = 300; // of a provider's own words

const char* meaning_of(int status) {
    switch (status) {
    case 401:
    case 403: return "refuses the credential of this machine";
    case 402: return "wants to be paid first";
    case 408: return "was given the request too slowly";
    case 429: return "allows no more requests for now";
    case 503:
    case 529: return "is overloaded";
    default: return status >= 500 ? "failed" : nullptr; // what else is 4xx the request itself is to blame for
    }
}

bool is_number(std::string_view text) {
    return !text.empty() && text.size() < 9 &&
           std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

} // namespace

std::optional<provider_answer> judge_provider(const provider_said& what) {
    if (what.status >= 200 && what.status < 300) {
        if (!what.error.empty()) // an event in the middle of an answer that had begun well
            return provider_answer{.outcome = provider_outcome::broke_off,
                                   .status = what.status,
                                   .text = "the model's provider ended its answer with an error: " +
                                           what.error.substr(0, longest_said)};
        if (!what.is_turn) return std::nullopt;
        return provider_answer{.outcome = provider_outcome::answered, .status = what.status};
    }
    const char* meaning = meaning_of(what.status);
    if (meaning == nullptr) return std::nullopt;
    std::string text = fmt::format("the model's provider {} ({})", meaning, what.status);
    if (is_number(what.retry_after)) text += fmt::format(", for {} s", what.retry_after);
    if (!what.error.empty()) text += ": " + what.error.substr(0, longest_said);
    return provider_answer{
        .outcome = provider_outcome::refused, .status = what.status, .text = std::move(text)};
}

provider_answer provider_broke_off(int status, std::string_view why) {
    return {.outcome = provider_outcome::broke_off,
            .status = status,
            .text = fmt::format("the model's provider broke off its answer: {}", why)};
}

provider_answer provider_unreachable(std::string_view why) {
    return {.outcome = provider_outcome::unreachable,
            .text = fmt::format("the model's provider is not reached: {}", why)};
}

provider_answer provider_silent(std::chrono::milliseconds so_far, bool in_answer) {
    return {
        .outcome = provider_outcome::silent,
        .text = fmt::format("the model's provider has said nothing for {:.0f} s{}; 'interrupt' ends the turn",
                            static_cast<double>(so_far.count()) / 1000,
                            in_answer ? ", in the middle of its answer" : "")};
}

} // namespace pinfold
