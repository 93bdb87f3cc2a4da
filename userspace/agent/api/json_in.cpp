#include "agent/api/json_in.hpp"

#include "spec/validate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace pinfold {

namespace {

using nlohmann::json;

constexpr int deepest = 8;

// Reads one object, key by key; the first thing that is wrong stays.
class object_reader {
public:
    object_reader(const json& from, std::string where) : from_(from), where_(std::move(where)) {
        if (!from.is_object()) note("", "must be an object");
    }

    template <typename Read>
    void key(const char* name, Read&& read) {
        known_.emplace_back(name);
        if (wrong_ || !from_.contains(name)) return;
        read(from_.at(name), name);
    }
    void text(const char* name, std::string& into) {
        key(name, [&](const json& value, const char*) {
            if (!value.is_string()) return note(name, "must be a string");
            into = value.get<std::string>();
            if (into.find('\0') != std::string::npos) note(name, "must not hold a NUL byte");
        });
    }
    template <std::unsigned_integral T>
    void number(const char* name, T& into) {
        key(name, [&](const json& value, const char*) {
            if (!value.is_number_unsigned()) return note(name, "must be a whole number, not negative");
            const auto found = value.get<std::uint64_t>();
            if (found > std::numeric_limits<T>::max()) return note(name, "is too large");
            into = static_cast<T>(found);
        });
    }
    void flag(const char* name, bool& into) {
        key(name, [&](const json& value, const char*) {
            if (!value.is_boolean()) return note(name, "must be true or false");
            into = value.get<bool>();
        });
    }
    void note(const std::string& name, std::string what) {
        if (wrong_) return;
        std::string where = where_;
        if (!name.empty()) where += (where.empty() ? "" : ".") + name;
        wrong_ = problem{.where = std::move(where), .what = std::move(what)};
    }
    void note(const std::optional<problem>& found) {
        if (!wrong_) wrong_ = found;
    }

    // After all keys.
    [[nodiscard]] std::optional<problem> finish() {
        if (wrong_) return wrong_;
        for (const auto& [name, value] : from_.items()) {
            if (std::ranges::find(known_, name) == known_.end()) {
                note(name, "is not a key that is known here");
                break;
            }
        }
        return wrong_;
    }

private:
    const json& from_;
    std::string where_;
    std::vector<std::string> known_;
    std::optional<problem> wrong_;
};

struct wanted_limits {
    std::optional<std::uint64_t> memory;
    std::optional<std::uint32_t> cpu_percent, processes;
};

std::optional<problem> read(const json& from, wanted_limits& into) {
    object_reader reader(from, "limits");
    reader.key("memory", [&](const json&, const char* name) { reader.number(name, into.memory.emplace()); });
    reader.key("pids", [&](const json&, const char* name) { reader.number(name, into.processes.emplace()); });
    reader.key("cpus", [&](const json& value, const char* name) {
        const double cpus = value.is_number() ? value.get<double>() : -1;
        if (!(cpus >= 0.01 && cpus <= 8192))
            return reader.note(name, "must be a number between 0.01 and 8192");
        into.cpu_percent = static_cast<std::uint32_t>(std::lround(cpus * 100));
    });
    return reader.finish();
}

void apply(const wanted_limits& wanted, limits_spec& to) {
    if (wanted.memory) to.memory_bytes = *wanted.memory;
    if (wanted.cpu_percent) to.cpu_percent = *wanted.cpu_percent;
    if (wanted.processes) to.processes = *wanted.processes;
}

std::optional<problem> read(const json& from, terminal_size& into) {
    object_reader reader(from, "terminal");
    reader.number("rows", into.rows);
    reader.number("cols", into.columns);
    return reader.finish();
}

void read_environment(object_reader& reader, std::map<std::string, std::string>& into) {
    reader.key("env", [&](const json& value, const char* name) {
        if (!value.is_object()) return reader.note(name, "must be an object of strings");
        for (const auto& [key, text] : value.items()) {
            if (key.empty() || key.find('=') != std::string::npos || key.find('\0') != std::string::npos)
                return reader.note(name, "'" + key + "' is no name of a variable");
            if (!text.is_string() || text.get_ref<const std::string&>().find('\0') != std::string::npos)
                return reader.note(std::string(name) + "." + key, "must be a string without a NUL byte");
            into.insert_or_assign(key, text.get<std::string>());
        }
    });
}

void read_command(object_reader& reader, command_request& into) {
    reader.key("argv", [&](const json& value, const char* name) {
        if (!value.is_array()) return reader.note(name, "must be a list of strings");
        for (const json& each : value) {
            if (!each.is_string()) return reader.note(name, "must be a list of strings");
            into.argv.push_back(each.get<std::string>());
        }
    });
    read_environment(reader, into.environment);
    reader.key("terminal", [&](const json& value, const char*) {
        if (!value.is_null()) reader.note(read(value, into.terminal.emplace()));
    });
}

std::expected<json, problem> parse(std::string_view text) {
    // Depth is bounded while parsing: a body of a million '[' must not become a million calls when it is freed. And of a
    // key that comes twice the last would win silently, while whoever looked at the request saw the first.
    bool too_deep = false;
    std::optional<std::string> twice;
    std::vector<std::set<std::string>> keys;
    json parsed = json::parse(
        text,
        [&](int depth, json::parse_event_t event, json& found) {
            using enum json::parse_event_t;
            too_deep = too_deep || depth > deepest;
            if (event == object_start) keys.emplace_back();
            if (event == object_end && !keys.empty()) keys.pop_back();
            if (event == key && !keys.empty() && !keys.back().insert(found.get<std::string>()).second)
                twice = found.get<std::string>();
            return !too_deep;
        },
        false);
    if (too_deep) return std::unexpected(problem{"body", "is nested too deeply"});
    if (parsed.is_discarded()) return std::unexpected(problem{"body", "is no JSON"});
    if (twice) return std::unexpected(problem{*twice, "is named twice"});
    return parsed;
}

std::optional<problem> missing_argv(const command_request& command) {
    if (!command.argv.empty() && !command.argv.front().empty()) return std::nullopt;
    return problem{"argv", "must name a program"};
}

} // namespace

std::expected<run_request, problem> read_run_request(std::string_view text) {
    const auto parsed = parse(text);
    if (!parsed) return std::unexpected(parsed.error());
    run_request request;
    std::string mode, directory;
    object_reader reader(*parsed, "");
    reader.text("name", request.name);
    reader.text("mode", mode);
    reader.text("dir", directory);
    reader.text("image", request.image);
    reader.flag("read_only_git", request.read_only_git);
    wanted_limits limits;
    reader.key("limits", [&](const json& value, const char*) {
        if (!value.is_null()) reader.note(read(value, limits));
    });
    read_command(reader, request.command);
    if (mode == "sealed")
        request.mode = run_mode::sealed;
    else if (mode == "caged")
        request.mode = run_mode::caged;
    else if (mode == "uncaged")
        request.mode = run_mode::uncaged;
    else
        reader.note("mode", "must be 'sealed', 'caged' or 'uncaged'");
    if (mode == "uncaged" && request.read_only_git)
        reader.note("read_only_git", "belongs to a cage, and mode is uncaged");
    if (auto wrong = reader.finish()) return std::unexpected(*wrong);
    if (auto wrong = missing_argv(request.command)) return std::unexpected(*wrong);
    if (directory.empty()) return std::unexpected(problem{"dir", "must be an absolute path"});
    if (!request.name.empty() && !is_name(request.name))
        return std::unexpected(problem{
            "name", "must be 1 to 64 of a-z, 0-9, '.', '_' and '-', and begin with a letter or a digit"});
    request.directory = directory;
    apply(limits, request.limits);
    if (auto wrong = find_problem(request.limits)) return std::unexpected(problem{wrong->where, wrong->what});
    return request;
}

std::expected<command_request, problem> read_exec_request(std::string_view text) {
    const auto parsed = parse(text);
    if (!parsed) return std::unexpected(parsed.error());
    command_request request;
    std::string directory;
    object_reader reader(*parsed, "");
    reader.text("dir", directory);
    read_command(reader, request);
    if (auto wrong = reader.finish()) return std::unexpected(*wrong);
    if (auto wrong = missing_argv(request)) return std::unexpected(*wrong);
    request.directory = directory;
    return request;
}

std::expected<std::function<void(limits_spec&)>, problem> read_limits_request(std::string_view text) {
    const auto parsed = parse(text);
    if (!parsed) return std::unexpected(parsed.error());
    wanted_limits wanted;
    if (auto wrong = read(*parsed, wanted)) return std::unexpected(*wrong);
    if (!wanted.memory && !wanted.cpu_percent && !wanted.processes)
        return std::unexpected(problem{"limits", "must name 'memory', 'cpus' or 'pids'"});
    limits_spec sample;
    apply(wanted, sample);
    if (auto wrong = find_problem(sample)) return std::unexpected(problem{wrong->where, wrong->what});
    return [wanted](limits_spec& limits) { apply(wanted, limits); };
}

} // namespace pinfold
