#include "ctl/denied.hpp"
#include "ctl/output.hpp"
#include "ctl/run_options.hpp"
#include "ctl/stdio_client.hpp"
#include "ctl/terminal.hpp"
#include "ctl/units.hpp"
#include "ctl/verbs.hpp"

#include <nlohmann/json.hpp>
#include <pinfold/stdio.h>
#include <unistd.h>

namespace pinfold::ctl {

using nlohmann::json;

namespace {

// "pinfold: making the cage …", taken away again when it runs.
class progress {
public:
    explicit progress(bool quiet) : may_show_(!quiet && ::isatty(STDERR_FILENO) == 1) {}
    void show() {
        if (!may_show_) return;
        fmt::print(stderr, "pinfold: making the cage (the first of an image prepares it) …");
        std::fflush(stderr);
        shown_ = true;
    }
    void hide() {
        if (std::exchange(shown_, false)) fmt::print(stderr, "\r\x1b[K");
    }

private:
    bool may_show_, shown_ = false;
};

// Also where the command itself went on: what it had started is not whole.
void tell_memory(const json& end) {
    const std::uint64_t peak = end.value("memory_peak", std::uint64_t{0});
    const std::uint64_t limit = end.value("memory_limit", std::uint64_t{0});
    const std::uint64_t kills = end.value("memory_kills", std::uint64_t{0});
    const std::string victim = end.value("memory_victim", "");
    print_error(fmt::format("killed{}{}: memory limit {}reached{}; raise it with --memory",
                            victim.empty() ? "" : " " + printable(victim),
                            kills > 1 ? fmt::format(" and {} before it", kills - 1) : "",
                            limit > 0 ? format_bytes(limit) + " " : "",
                            peak > 0 ? " (peak " + format_bytes(peak) + ")" : ""),
                false);
}

void tell_end(const json& end, const std::string& name, const common_options& options) {
    if (options.json)
        return fmt::print(stderr, "{}\n", end.dump(-1, ' ', false, json::error_handler_t::replace));
    if (end.value("memory_kill", false) || end.value("memory_kills", std::uint64_t{0}) > 0) tell_memory(end);
    if (end.value("keeper_lost", false))
        print_error("the keeper was gone when the program ended: its exit code is not known", false);
    if (!options.quiet && may_tell_denials(end)) tell_denials(end, name);
}

void tell_start(const json& what, const common_options& options) {
    if (options.quiet || options.json || !what.contains("notes") || !what["notes"].is_array()) return;
    std::string notes;
    for (const json& note : what["notes"]) {
        if (note.is_string()) notes += (notes.empty() ? "" : "; ") + printable(note.get<std::string>());
    }
    if (!notes.empty()) fmt::print(stderr, "pinfold: {}\n", notes);
}

int carry(unique_fd connection, const std::string& early, bool terminal, const common_options& options) {
    std::string name, mode;
    progress slow(options.quiet || options.json);
    std::optional<raw_terminal> raw;
    stdio_events events;
    events.slow = [&] { slow.show(); };
    events.started = [&](const json& what) {
        slow.hide();
        name = what.value("name", "");
        mode = what.value("mode", "");
        tell_start(what, options);
        if (terminal) raw.emplace();
    };
    events.resumed = [&] {
        if (raw) raw->again();
    };
    stdio_result result;
    {
        stdio_client streams(std::move(connection), early, terminal, events);
        result = streams.run();
    }
    raw.reset();
    slow.hide();
    json end = json::parse(result.text, nullptr, false);
    if (!end.is_object()) fail("the agent told no end that can be read");
    if (result.error) {
        print_error(end.value("error", "the program was not started"), options.json);
        return end.value("status", exit_not_started);
    }
    end["name"] = name;
    if (!mode.empty()) end["mode"] = mode;
    tell_end(end, name, options);
    return end.value("status", exit_not_started);
}

int run_by(const common_options& options, std::string_view path, const json& request) {
    client agent = agent_of(options);
    const reply answer = agent.ask("POST", path, request.dump(-1, ' ', false, json::error_handler_t::replace),
                                   PINFOLD_STDIO_PROTOCOL);
    if (answer.status != 101) {
        parse_answer(answer);
        fail("the agent answered {} where it should run the program", answer.status);
    }
    return carry(agent.take_connection(), answer.rest, !request.at("terminal").is_null(), options);
}

} // namespace

int run_verb(common_options& options, const words& arguments) {
    const auto line = read_verb(options, arguments, "pinfold run [options] -- CMD…", run_description(), 0);
    if (!line) return 0;
    return run_by(options, "/v1/cages", run_request_of(*line, find_owner(options)));
}

int exec_verb(common_options& options, const words& arguments) {
    const auto line = read_verb(options, arguments, "pinfold exec NAME [options] -- CMD…", exec_description(),
                                1);
    if (!line) return 0;
    if (line->names.empty()) throw usage_error("which cage? pinfold exec NAME [options] -- CMD…");
    const std::string name = checked_name(line->names.front());
    return run_by(options, "/v1/cages/" + name + "/exec", exec_request_of(*line));
}

} // namespace pinfold::ctl
