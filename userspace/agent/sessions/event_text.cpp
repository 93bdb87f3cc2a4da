#include "agent/sessions/event_text.hpp"

#include "agent/sessions/place.hpp"

#include <chrono>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

namespace pinfold {

namespace {

using nlohmann::json;

std::string dumped(const json& from) {
    return from.dump(-1, ' ', false, json::error_handler_t::replace);
}

} // namespace

// The text of a message's content: a string, or the blocks of type "text".
std::string content_text(const json& content) {
    if (content.is_string()) return content.get<std::string>();
    std::string all;
    if (!content.is_array()) return all;
    for (const json& each : content) {
        if (!each.is_object() || each.value("type", json()) != "text") continue;
        const auto text = each.find("text");
        if (text == each.end() || !text->is_string()) continue;
        if (!all.empty()) all += "\n";
        all += text->get<std::string>();
    }
    return all;
}

std::string now_text() {
    const auto now = std::chrono::system_clock::now();
    const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()) %
                              std::chrono::seconds(1);
    std::string text = moment_text(std::chrono::system_clock::to_time_t(now));
    text.pop_back();
    return text + fmt::format(".{:03}Z", milliseconds.count());
}

std::string moment_text(std::int64_t seconds) {
    const std::time_t moment = seconds;
    std::tm parts{};
    ::gmtime_r(&moment, &parts);
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                       parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::string event_json(const event_row& from) {
    std::string text = fmt::format(R"({{"seq":{},"time":"{}","kind":"{}")", from.seq, from.time, from.kind);
    if (!from.by.empty()) text += ",\"by\":" + dumped(from.by);
    // The data is JSON that was parsed once, so a carriage return in it is white space; as it stands it would end a line
    // of the stream, and what a harness prints could then look like an event of its own.
    if (!from.data.empty()) {
        text += ",\"data\":";
        const std::size_t begin = text.size();
        text += from.data;
        for (std::size_t i = begin; i < text.size(); ++i) {
            if (text[i] == '\r' || text[i] == '\n') text[i] = ' ';
        }
    }
    return text + "}";
}

std::string event_block(const event_row& from, bool kept) {
    std::string block = kept ? fmt::format("id: {}\n", from.seq) : std::string();
    return block + "data: " + event_json(from) + "\n\n";
}

namespace event_data {

std::string message(std::string_view text, std::string_view id, bool waits) {
    json data{{"text", text}};
    if (!id.empty()) data["id"] = id;
    if (waits) data["waits"] = true;
    return dumped(data);
}

std::string answer(std::string_view prompt, const harness::answer& what) {
    json data{{"prompt", prompt}, {"allow", what.allow}, {"message", what.message}};
    if (!what.answers.empty()) data["answers"] = what.answers;
    return dumped(data);
}

std::string stopped(std::string_view reason) {
    return dumped({{"reason", reason}});
}

std::string partial(std::string_view text) {
    return dumped({{"text", text}});
}

std::string renamed(std::string_view from, std::string_view to) {
    return dumped({{"from", from}, {"to", to}});
}

std::string caged(const std::optional<cage_options>& cage) {
    json data{{"caged", cage.has_value()}};
    if (!cage) return dumped(data);
    if (!cage->image.empty()) data["image"] = cage->image;
    for (const auto& [key, given] : {std::pair{"nix", cage->nix},
                                     {"github", cage->github},
                                     {"shared", cage->shared},
                                     {"sealed", cage->sealed},
                                     {"read_only_git", cage->read_only_git}}) {
        if (given) data[key] = true;
    }
    return dumped(data);
}

std::string limits(std::string_view memory, std::string_view cpus) {
    return dumped({{"cage_limits", {{"memory", memory}, {"cpus", cpus}}}});
}

std::string result(bool failed, std::string_view text) {
    return dumped({{"type", "result"},
                   {"subtype", failed ? "error_during_execution" : "success"},
                   {"is_error", failed},
                   {"result", text}});
}

} // namespace event_data

std::vector<std::string> setting_events(const settings_change& change) {
    std::vector<std::string> list;
    const auto note = [&](const char* key, const auto& value) {
        if (value) list.push_back(dumped({{key, *value}}));
    };
    note("meshes", change.meshes);
    note("accept_files_from", change.accept_files_from);
    note("accept_caged_from", change.accept_caged_from);
    note("accept_caged", change.accept_caged);
    note("auto_approve", change.auto_approve);
    note("starred", change.starred);
    note("keep_running", change.keep_running);
    return list;
}

std::optional<spoken_line> spoken_of(const event_row& from) {
    const json data = json::parse(from.data, nullptr, false);
    if (!data.is_object()) return std::nullopt;
    spoken_line line{.seq = from.seq, .time = from.time};
    if (from.kind == "message") {
        line.role = "user";
        line.text = data.contains("text") && data["text"].is_string() ? data["text"].get<std::string>() : "";
    } else if (from.kind == "claude" && data.value("type", json()) == "assistant" &&
               !data.value("parent_tool_use_id", json()).is_string()) {
        line.role = "assistant";
        const json message = data.value("message", json::object());
        if (message.is_object()) line.text = content_text(message.value("content", json()));
    }
    if (line.text.empty()) return std::nullopt;
    return line;
}

std::string recorded_directory(const std::filesystem::path& transcript) {
    std::ifstream from(transcript);
    std::string line;
    for (int i = 0; i < 100 && std::getline(from, line); ++i) {
        const json entry = json::parse(line, nullptr, false);
        if (entry.is_object() && entry.contains("cwd") && entry["cwd"].is_string())
            return entry["cwd"].get<std::string>();
    }
    throw session_refusal(
        400, fmt::format("{} does not say where it was held: name a 'dir'", transcript.native()));
}

std::string caged_models(std::string_view owners, const std::string& gateway) {
    json all = json::parse(owners, nullptr, false);
    if (!all.is_object()) all = json::object();
    json providers = json::object();
    if (all.contains("providers") && all["providers"].is_object()) {
        for (const auto& [name, provider] : all["providers"].items()) {
            if (!provider.is_object()) continue;
            json known = json::object(); // what is let in, by name: a key can stand in any other field
            for (const char* key : {"api", "models", "compat", "authHeader"}) {
                if (provider.contains(key)) known[key] = provider[key];
            }
            if (known.contains("models") && known["models"].is_array()) {
                for (json& model : known["models"]) {
                    if (model.is_object()) model.erase("headers");
                }
            }
            known["baseUrl"] = fmt::format("{}/provider/{}", gateway, name);
            known["apiKey"] = "pinfold-gateway";
            providers[name] = std::move(known);
        }
    }
    return dumped({{"providers", providers}});
}

std::string cut(std::string_view text, std::size_t characters) {
    std::size_t seen = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool begins = (static_cast<unsigned char>(text[i]) & 0xc0U) != 0x80U;
        if (begins && seen++ == characters) return std::string(text.substr(0, i)) + "…";
    }
    return std::string(text);
}

} // namespace pinfold
