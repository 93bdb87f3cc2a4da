// How a session's model does: its owner is told of each new failure at once, of the same one again rarely, and of its end.
#pragma once

#include "agent/provider_answer.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace pinfold {

class provider_state {
public:
    using clock = std::chrono::steady_clock;
    static constexpr std::chrono::seconds told_again{30};
    static constexpr unsigned most_at_once = 10; // failures told of in that time, however different

    struct told { // an event
        const char* kind = "";
        std::string data;
    };
    // What is to be told of it. A harness that tries again in a loop fills no log.
    [[nodiscard]] std::optional<told> hear(const provider_answer& what, clock::time_point now);

    [[nodiscard]] bool fails() const noexcept { return times_ > 0; }
    [[nodiscard]] std::uint64_t times() const noexcept { return times_; }
    // JSON: since when, what, how often.
    [[nodiscard]] std::string text() const;

private:
    provider_answer last_;
    std::uint64_t times_ = 0; // in a row
    std::string since_;
    clock::time_point told_, window_;
    unsigned in_window_ = 0;
    bool is_told_ = false; // of the present failures
};

// A subscription's limit that was reached, as the harness says it.
struct reached_limit {
    std::string reason, until; // RFC 3339; empty = not said
    std::int64_t until_seconds = 0;
    [[nodiscard]] bool holds(std::int64_t now_seconds) const noexcept {
        return !reason.empty() && (until_seconds == 0 || now_seconds < until_seconds);
    }
};

struct model_health {
    provider_state provider;
    reached_limit limited;
};

} // namespace pinfold
