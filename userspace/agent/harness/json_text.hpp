// JSON of a harness, read without trust: a key that is not there or of another kind is an empty value.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace pinfold::harness {

using nlohmann::json;

[[nodiscard]] inline std::string line_of(const json& from) {
    return from.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}
[[nodiscard]] inline std::string json_text(const json& from) {
    return from.dump(-1, ' ', false, json::error_handler_t::replace);
}
[[nodiscard]] inline std::string text_at(const json& in, const char* key) {
    if (!in.is_object()) return {};
    const auto found = in.find(key);
    return found != in.end() && found->is_string() ? found->get<std::string>() : std::string();
}
[[nodiscard]] inline const json& at(const json& in, const char* key) {
    static const json nothing;
    if (!in.is_object()) return nothing;
    const auto found = in.find(key);
    return found == in.end() ? nothing : *found;
}
[[nodiscard]] inline std::uint64_t number_at(const json& in, const char* key) {
    const json& found = at(in, key);
    return found.is_number_unsigned() ? found.get<std::uint64_t>() : 0;
}
[[nodiscard]] inline bool flag_at(const json& in, const char* key) {
    const json& found = at(in, key);
    return found.is_boolean() && found.get<bool>();
}
// The text of a message's content: a string, or blocks of which those of type "text" count.
[[nodiscard]] inline std::string spoken_text(const json& content) {
    if (content.is_string()) return content.get<std::string>();
    std::string all;
    if (!content.is_array()) return all;
    for (const json& each : content) {
        if (text_at(each, "type") != "text") continue;
        if (!all.empty()) all += "\n";
        all += text_at(each, "text");
    }
    return all;
}
// Depth bounded: a line of a million '[' must not become a million calls when it is freed.
[[nodiscard]] inline json parse_line(std::string_view line) {
    constexpr int deepest = 128;
    bool too_deep = false;
    json parsed = json::parse(
        line,
        [&](int depth, json::parse_event_t, json&) {
            too_deep = too_deep || depth > deepest;
            return !too_deep;
        },
        false);
    return too_deep || !parsed.is_object() ? json() : parsed;
}

} // namespace pinfold::harness
