#include "agent/sessions/provider_state.hpp"

#include "agent/sessions/event_text.hpp"
#include "agent/sessions/session.hpp"

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

namespace pinfold {

namespace {

using nlohmann::json;

const char* to_string(provider_outcome outcome) noexcept {
    switch (outcome) {
    case provider_outcome::refused: return "refused";
    case provider_outcome::broke_off: return "broke-off";
    case provider_outcome::unreachable: return "unreachable";
    case provider_outcome::silent: return "silent";
    case provider_outcome::answered: return "answered";
    }
    return "?";
}

json shown(const provider_answer& what, std::uint64_t times) {
    json data{{"what", to_string(what.outcome)}, {"message", what.text}, {"times", times}};
    if (what.status != 0) data["status"] = what.status;
    return data;
}

std::string dumped(const json& from) {
    return from.dump(-1, ' ', false, json::error_handler_t::replace);
}

} // namespace

std::optional<provider_state::told> provider_state::hear(const provider_answer& what, clock::time_point now) {
    if (what.outcome == provider_outcome::answered) {
        const std::uint64_t failures = std::exchange(times_, 0);
        if (failures == 0 || !std::exchange(is_told_, false)) return std::nullopt;
        return told{.kind = "provider-ok", .data = dumped({{"times", failures}, {"since", since_}})};
    }
    const bool is_new = times_ == 0 || what.outcome != last_.outcome || what.status != last_.status;
    if (times_ == 0) since_ = now_text();
    ++times_;
    last_ = what;
    if (!is_new && now - told_ < told_again) return std::nullopt;
    if (now - window_ >= told_again) {
        window_ = now;
        in_window_ = 0;
    }
    if (++in_window_ > most_at_once) return std::nullopt; // it changes all the time: that is known by now
    told_ = now;
    is_told_ = true;
    return told{.kind = "provider-error", .data = dumped(shown(what, times_))};
}

std::string provider_state::text() const {
    json data = shown(last_, times_);
    data["since"] = since_;
    return dumped(data);
}

// The session goes on whatever comes of this: a failure of the provider is not one of the session.
void session::hear(const provider_answer& what) {
    const auto told = model_.provider.hear(what, provider_state::clock::now());
    touch();
    if (!told) return;
    try {
        record(told->kind, "", told->data);
    } catch (const store_failure& error) {
        spdlog::warn("session \"{}\": {}: {}", row_.name, told->kind, error.what());
    }
    changed.pulse();
}

} // namespace pinfold
