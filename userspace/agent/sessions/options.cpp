#include "agent/sessions/options.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

namespace pinfold {

namespace {

using nlohmann::json;

constexpr int deepest = 32;

std::expected<json, problem> parse(std::string_view text) {
    bool too_deep = false;
    json parsed = json::parse(
        text,
        [&](int depth, json::parse_event_t, json&) {
            too_deep = too_deep || depth > deepest;
            return !too_deep;
        },
        false);
    if (too_deep) return std::unexpected(problem{"body", "is nested too deeply"});
    if (parsed.is_discarded()) return std::unexpected(problem{"body", "is no JSON"});
    if (!parsed.is_object()) return std::unexpected(problem{"body", "must be a JSON object"});
    return parsed;
}

// Reads keys; the first thing that is wrong stays.
class reader {
public:
    reader(const json& from, std::string where) : from_(from), where_(std::move(where)) {}

    void text(const char* key, std::string& into) {
        with(key, [&](const json& value) {
            if (!value.is_string()) return note(key, "must be a string");
            into = value.get<std::string>();
            if (into.find('\0') != std::string::npos) note(key, "must not hold a NUL byte");
        });
    }
    template <typename Flag>
    void flag(const char* key, Flag& into) {
        with(key, [&](const json& value) {
            if (!value.is_boolean()) return note(key, "must be true or false");
            into = value.get<bool>();
        });
    }
    template <typename List>
    void texts(const char* key, List& into) {
        with(key, [&](const json& value) {
            if (!value.is_array()) return note(key, "must be a list of strings");
            std::vector<std::string> list;
            for (const json& each : value) {
                if (!each.is_string() || each.get_ref<const std::string&>().find('\0') != std::string::npos)
                    return note(key, "must be a list of strings");
                list.push_back(each.get<std::string>());
            }
            into = std::move(list);
        });
    }
    template <typename Take>
    void with(const char* key, Take&& take) {
        const auto found = from_.find(key);
        if (!wrong_ && found != from_.end() && !found->is_null()) take(*found);
    }
    void note(const char* key, std::string what) {
        if (!wrong_) wrong_ = problem{.where = where_ + key, .what = std::move(what)};
    }
    [[nodiscard]] const std::optional<problem>& wrong() const { return wrong_; }

private:
    const json& from_;
    std::string where_;
    std::optional<problem> wrong_;
};

void read_cage(reader& from, std::optional<cage_options>& into) {
    from.with("cage", [&](const json& value) {
        if (!value.is_object()) return from.note("cage", "must be an object, or null");
        cage_options cage;
        reader inside(value, "cage.");
        inside.text("image", cage.image);
        inside.flag("sealed", cage.sealed);
        inside.flag("nix", cage.nix);
        inside.flag("github", cage.github);
        inside.flag("shared", cage.shared);
        inside.flag("read_only_git", cage.read_only_git);
        if (const auto& wrong = inside.wrong()) from.note(wrong->where.c_str(), wrong->what);
        if (cage.sealed) cage.nix = cage.github = cage.shared = false; // not offered there
        into = cage;
    });
}

// A number in decimal, as a double, or nothing.
std::optional<double> decimal(std::string_view text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value,
                                              std::chars_format::fixed);
    if (error != std::errc() || end != text.data() + text.size() || !(value >= 0)) return std::nullopt;
    return value;
}

template <typename Request, typename Read>
std::expected<Request, problem> read_with(std::string_view text, Read&& read) {
    const auto parsed = parse(text);
    if (!parsed) return std::unexpected(parsed.error());
    Request request;
    reader from(*parsed, "");
    read(from, request);
    if (const auto& wrong = from.wrong()) return std::unexpected(*wrong);
    return request;
}

json cage_json(const cage_options& from) {
    return {{"image", from.image},   {"sealed", from.sealed}, {"nix", from.nix},
            {"github", from.github}, {"shared", from.shared}, {"read_only_git", from.read_only_git}};
}

std::string dumped(const json& from) {
    return from.dump(-1, ' ', false, json::error_handler_t::replace);
}

} // namespace

std::expected<create_request, problem> read_create(std::string_view text) {
    return read_with<create_request>(text, [](reader& from, create_request& into) {
        from.text("name", into.name);
        from.text("dir", into.directory);
        from.text("harness", into.harness);
        from.text("resume", into.resume);
        from.flag("auto_approve", into.auto_approve);
        from.flag("keep_running", into.keep_running);
        from.texts("command", into.options.command);
        read_cage(from, into.options.cage);
        if (into.harness.empty()) into.harness = "claude";
    });
}

std::expected<std::optional<cage_options>, problem> read_move(std::string_view text) {
    return read_with<std::optional<cage_options>>(
        text, [](reader& from, std::optional<cage_options>& into) { read_cage(from, into); });
}

std::expected<limits_request, problem> read_cage_limits(std::string_view text) {
    return read_with<limits_request>(text, [](reader& from, limits_request& into) {
        from.text("memory", into.memory);
        from.text("cpus", into.cpus);
    });
}

std::expected<message_request, problem> read_message(std::string_view text) {
    return read_with<message_request>(text, [](reader& from, message_request& into) {
        from.text("text", into.text);
        from.text("id", into.id);
        if (into.text.find_first_not_of(" \t\r\n") == std::string::npos)
            from.note("text", "must not be empty");
        if (into.id.size() > 256) from.note("id", "must be at most 256 bytes");
    });
}

std::expected<answer_request, problem> read_answer(std::string_view text) {
    return read_with<answer_request>(text, [](reader& from, answer_request& into) {
        std::optional<bool> allow;
        from.flag("allow", allow);
        from.text("message", into.message);
        from.with("answers", [&](const json& value) {
            if (!value.is_object()) return from.note("answers", "must be an object of strings");
            for (const auto& [question, said] : value.items()) {
                if (!said.is_string()) return from.note("answers", "must be an object of strings");
                into.answers.emplace_back(question, said.get<std::string>());
            }
        });
        if (!allow) return from.note("allow", "must be true or false");
        into.allow = *allow;
    });
}

std::expected<std::string, problem> read_rename(std::string_view text) {
    return read_with<std::string>(text, [](reader& from, std::string& into) { from.text("name", into); });
}

std::expected<settings_change, problem> read_settings(std::string_view text) {
    return read_with<settings_change>(text, [](reader& from, settings_change& into) {
        from.flag("auto_approve", into.auto_approve);
        from.flag("starred", into.starred);
        from.flag("keep_running", into.keep_running);
        from.flag("accept_caged", into.accept_caged);
        from.texts("accept_files_from", into.accept_files_from);
        from.texts("accept_caged_from", into.accept_caged_from);
        from.texts("meshes", into.meshes);
        from.with("ignore_file_request", [&](const json& value) {
            if (!value.is_string()) return from.note("ignore_file_request", "must be a string");
            into.ignore_file_request = value.get<std::string>();
        });
        for (const auto& [key, list] : {std::pair{"accept_files_from", &into.accept_files_from},
                                        std::pair{"accept_caged_from", &into.accept_caged_from}}) {
            if (!*list) continue;
            for (const std::string& each : **list) {
                const std::size_t slash = each.find('/');
                if (slash == 0 || slash == std::string::npos || slash + 1 == each.size() ||
                    each.find_first_of(" \t\r\n") != std::string::npos)
                    return from.note(key, "each must be MACHINE/SESSION or MACHINE/*, without spaces");
            }
        }
    });
}

std::string to_text(const session_options& from) {
    json all{
        {"memory", from.memory}, {"cpus", from.cpus}, {"command", from.command}, {"outbox", from.outbox}};
    if (from.cage) all["cage"] = cage_json(*from.cage);
    return dumped(all);
}

std::string to_text(const session_settings& from) {
    json all{{"auto_approve", from.auto_approve},           {"starred", from.starred},
             {"keep_running", from.keep_running},           {"accept_files_from", from.accept_files_from},
             {"accept_caged_from", from.accept_caged_from}, {"meshes", from.meshes}};
    if (from.accept_caged) all["accept_caged"] = *from.accept_caged;
    return dumped(all);
}

session_options options_from(std::string_view text) {
    session_options options;
    const json from = json::parse(text, nullptr, false);
    if (!from.is_object()) return options;
    reader all(from, "");
    all.text("memory", options.memory);
    all.text("cpus", options.cpus);
    all.text("outbox", options.outbox);
    all.texts("command", options.command);
    read_cage(all, options.cage);
    return options;
}

session_settings settings_from(std::string_view text) {
    session_settings settings;
    const json from = json::parse(text, nullptr, false);
    if (!from.is_object()) return settings;
    reader all(from, "");
    all.flag("auto_approve", settings.auto_approve);
    all.flag("starred", settings.starred);
    all.flag("keep_running", settings.keep_running);
    all.flag("accept_caged", settings.accept_caged);
    all.texts("accept_files_from", settings.accept_files_from);
    all.texts("accept_caged_from", settings.accept_caged_from);
    all.texts("meshes", settings.meshes);
    return settings;
}

void apply_limits(const std::string& memory, const std::string& cpus, limits_spec& to) {
    if (!memory.empty()) {
        std::string_view digits = memory;
        double unit = 1;
        constexpr std::string_view units = "bkmgt";
        const char last = digits.back() >= 'A' && digits.back() <= 'Z' ? static_cast<char>(digits.back() + 32)
                                                                       : digits.back();
        if (const std::size_t at = units.find(last); at != std::string_view::npos) {
            for (std::size_t i = 0; i < at; ++i) unit *= 1024;
            digits.remove_suffix(1);
        }
        const auto value = decimal(digits);
        if (!value || *value * unit < 16777216.0 || *value * unit > 1e18)
            throw session_refusal(
                400, fmt::format("memory: must be like '16g' or '512m', at least 16m, not '{}'", memory));
        to.memory_bytes = static_cast<std::uint64_t>(*value * unit);
    }
    if (!cpus.empty()) {
        const auto value = decimal(cpus);
        const double most = std::max(1U, std::thread::hardware_concurrency());
        if (!value || *value < 0.01 || *value > most)
            throw session_refusal(
                400, fmt::format("cpus: must be between 0.01 and this machine's {}, not '{}'", most, cpus));
        to.cpu_percent = static_cast<std::uint32_t>(std::lround(*value * 100));
    }
}

bool is_session_name(std::string_view text) noexcept {
    const auto word = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    };
    if (text.empty() || text.size() > 64 || !word(text.front())) return false;
    return std::ranges::all_of(text, [&](char c) { return word(c) || c == '.' || c == '_' || c == '-'; });
}

} // namespace pinfold
