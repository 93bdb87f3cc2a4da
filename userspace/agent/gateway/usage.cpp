#include "agent/gateway/usage.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace pinfold {

using nlohmann::json;

namespace {

std::uint64_t number(const json& in, const char* key) {
    const auto found = in.find(key);
    return found != in.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

} // namespace

void usage_counter::begin(std::string_view content_type) {
    events_ = content_type.find("text/event-stream") != std::string_view::npos;
    body_ = !events_ && content_type.find("json") != std::string_view::npos;
}

void usage_counter::put(std::string_view bytes) {
    if (body_) {
        if (held_.size() + bytes.size() <= most_held)
            held_ += bytes;
        else
            body_ = false; // no answer of a model is as long as that
        return;
    }
    while (events_ && !bytes.empty()) {
        const std::size_t end = bytes.find('\n');
        if (!skipping_ && held_.size() + std::min(end, bytes.size()) <= most_held)
            held_ += bytes.substr(0, end);
        else
            skipping_ = true;
        if (end == std::string_view::npos) return;
        bytes.remove_prefix(end + 1);
        const std::string line = std::exchange(held_, {});
        if (!std::exchange(skipping_, false) && line.starts_with("data:"))
            read(std::string_view(line).substr(5));
    }
}

void usage_counter::end() {
    if (body_) read(held_);
    held_.clear();
}

void usage_counter::read(std::string_view text) {
    // Most events have neither, and are not parsed.
    if (text.find("\"usage\"") == std::string_view::npos && text.find("\"error\"") == std::string_view::npos)
        return;
    const json event = json::parse(text, nullptr, false);
    if (!event.is_object()) return;
    if (const auto error = event.find("error"); error != event.end() && error->is_object()) {
        const auto words = error->find("message");
        error_ = words != error->end() && words->is_string() ? words->get<std::string>() : "an error";
    }
    const json* holder = &event;
    if (const auto message = event.find("message"); message != event.end() && message->is_object())
        holder = &*message;
    const auto usage = holder->find("usage");
    if (usage == holder->end() || !usage->is_object()) return;
    const std::uint64_t read_in = number(*usage, "input_tokens") + number(*usage, "cache_read_input_tokens") +
                                  number(*usage, "cache_creation_input_tokens") +
                                  number(*usage, "prompt_tokens");
    // Each event has the sum so far.
    in_ = std::max(in_, read_in);
    out_ = std::max(out_, number(*usage, "output_tokens") + number(*usage, "completion_tokens"));
}

} // namespace pinfold
