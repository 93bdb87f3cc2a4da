#include "agent/api/json_in.hpp"
#include "agent/api/json_out.hpp"
#include "agent/api/services.hpp"

#include <csignal>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

namespace pinfold {

using nlohmann::json;

namespace {

// Told when the agent stops, for as long as this exists.
class registered {
public:
    registered(services& with, stdio_session& session) : with_(with), session_(session) {
        with.sessions.insert(&session);
    }
    registered(const registered&) = delete;
    registered& operator=(const registered&) = delete;
    ~registered() { with_.sessions.erase(&session_); }

private:
    services& with_;
    stdio_session& session_;
};

bool wants_stdio(const http::request& request) {
    return request.upgrade() == PINFOLD_STDIO_PROTOCOL;
}

http::response needs_upgrade() {
    http::response answer = answer_error(426, "this runs a program with its standard streams: ask with "
                                              "'Connection: Upgrade' and 'Upgrade: pinfold-stdio'");
    answer.fields.emplace_back("Upgrade", PINFOLD_STDIO_PROTOCOL);
    return answer;
}

json exit_json(const program_end& end) {
    return {{"status", end.status},
            {"memory_kill", end.memory_kill},
            {"memory_peak", end.memory_peak},
            {"memory_limit", end.memory_limit},
            {"memory_kills", end.memory_kills},
            {"memory_victim", end.memory_victim},
            {"keeper_lost", end.keeper_lost}};
}

task<> tell_failure(stdio_session& session, std::exception_ptr error) {
    const explained why = explain(error);
    spdlog::info("a program was not started: {}", why.text);
    co_await session.tell(PINFOLD_FRAME_ERROR, {{"error", why.text}, {"status", why.exit_status}});
}

// The cage lives as long as its first program, and that as long as its client.
task<> run_and_carry(services& with, stdio_session& session, std::string /*name*/, run_request request) {
    const std::shared_ptr<cage_record> record = co_await with.owned.run(std::move(request));
    const std::shared_ptr<program> first = record->first;
    spdlog::info("{} \"{}\" began{}", to_string(record->mode), record->name,
                 record->id != 0 ? " as cage " + cage_id_text(record->id) : "");
    std::exception_ptr error;
    try {
        co_await session.tell(PINFOLD_FRAME_STARTED,
                              {{"name", record->name},
                               {"cage", record->id != 0 ? json(cage_id_text(record->id)) : json(nullptr)},
                               {"mode", to_string(record->mode)},
                               {"notes", record->notes}});
        co_await session.carry(first);
    } catch (...) {
        error = std::current_exception();
    }
    if (!first->ended.is_set()) co_await first->kill();
    with.owned.forget(*record);
    spdlog::info("{} \"{}\" ended with {}{}", to_string(record->mode), record->name, first->end.status,
                 first->end.memory_kills > 0 ? " (memory limit reached)" : "");
    if (error) std::rethrow_exception(error);
    json end = exit_json(first->end);
    end.update(
        {{"denials", record->denials},
         {"denied", record->id != 0 ? denied_summary(with.owned.denials(), record->id) : json::array()},
         {"memory_limit", record->limits.memory_bytes}});
    co_await session.tell(PINFOLD_FRAME_EXIT, end);
}

task<> exec_and_carry(services& with, stdio_session& session, std::string name, command_request request) {
    const std::shared_ptr<program> started = co_await with.owned.exec(name, std::move(request));
    co_await session.tell(PINFOLD_FRAME_STARTED, {{"name", name}});
    co_await session.carry(started);
    co_await session.tell(PINFOLD_FRAME_EXIT, exit_json(started->end));
}

// 101, then the program and its streams; what fails becomes the error frame.
template <typename Request>
task<std::optional<http::response>> with_session(services& with, exchange& asked, Request request,
                                                 task<> (*work)(services&, stdio_session&, std::string,
                                                                Request)) {
    const std::string head = http::upgrade_head(PINFOLD_STDIO_PROTOCOL);
    if (co_await send_all(with.owned.ring(), asked.client, std::as_bytes(std::span(head))) < 0)
        co_return std::nullopt;
    const auto session = std::make_shared<stdio_session>(with.owned.ring(), with.owned.group(), with.buffers,
                                                         asked.client, std::move(asked.early));
    const registered known(with, *session);
    asked.request = {}; // it may be a megabyte, and the program may run for days
    std::exception_ptr error;
    try {
        co_await work(with, *session, asked.name, std::move(request));
    } catch (...) {
        error = std::current_exception();
    }
    if (error) co_await tell_failure(*session, error);
    co_await session->close();
    co_return std::nullopt;
}

} // namespace

task<std::optional<http::response>> run_cage(services& with, exchange& asked) {
    if (!wants_stdio(asked.request)) co_return needs_upgrade();
    auto request = read_run_request(asked.request.body);
    if (!request) co_return answer_error(400, request.error().text());
    co_return co_await with_session(with, asked, std::move(*request), run_and_carry);
}

task<std::optional<http::response>> exec_in_cage(services& with, exchange& asked) {
    if (!wants_stdio(asked.request)) co_return needs_upgrade();
    auto request = read_exec_request(asked.request.body);
    if (!request) co_return answer_error(400, request.error().text());
    co_return co_await with_session(with, asked, std::move(*request), exec_and_carry);
}

} // namespace pinfold
