// A2A: other agents ask the sessions of this machine for work, wait for it, and follow it.
#include "agent/api/session_routes.hpp"
#include "agent/api/task_routes.hpp"
#include "agent/tasks/task_board.hpp"

#include <nlohmann/json.hpp>
#include <poll.h>

namespace pinfold {

using nlohmann::json;

namespace {

constexpr std::chrono::seconds keepalive{20};

http::response rpc_answer(std::string body) {
    return {.status = 200, .body = std::move(body) + "\n"};
}

std::string dumped(const json& from) {
    return from.dump(-1, ' ', false, json::error_handler_t::replace);
}

// A client that hangs up says nothing more: without this it would be waited for until the end.
struct waiting_client {
    bool gone = false;
    event ended;
};

task<> watch_client(uring* ring, int client, std::shared_ptr<session> worker,
                    std::shared_ptr<waiting_client> who) {
    std::ignore = co_await poll_once(*ring, client, POLLRDHUP);
    who->gone = true;
    worker->changed.pulse();
    who->ended.set();
}

task<> forget_client(uring& ring, int client, waiting_client& who) {
    ring.cancel(client);
    if (!who.ended.is_set()) co_await who.ended.wait();
}

// Until it is done, the worker asks, the time is over or the client has left.
task<> hold(services& with, const exchange& asked, task_row& row) {
    task_board& board = *with.tasks;
    const std::shared_ptr<session> worker = board.worker_of(row);
    if (!worker || !board.may_watch()) co_return;
    const task_board::watch seen(board, row.number);
    const auto who = std::make_shared<waiting_client>();
    with.owned.group().spawn(watch_client, &with.owned.ring(), asked.client, worker, who);
    const auto end = std::chrono::steady_clock::now() + board.hold_time();
    std::optional<task_row> now = std::move(row);
    while (now && !board.is_settled(*now) && !who->gone && !with.stopping) {
        const auto left = end - std::chrono::steady_clock::now();
        if (left <= left.zero() || !co_await wait_within(with.owned.ring(), worker->changed, left)) break;
        now = board.kept().find(now->number);
    }
    co_await forget_client(with.owned.ring(), asked.client, *who);
    if (!now) throw task_refusal(404, rpc_code::no_task, "the session was deleted, and its tasks with it");
    row = std::move(*now);
}

// ---- following ----

task<bool> send_data(services& with, int client, std::string_view text) {
    const std::string bytes = http::chunk(fmt::format("data: {}\n\n", text));
    co_return co_await send_all(with.owned.ring(), client, std::as_bytes(std::span(bytes))) >= 0;
}

bool is_final(const task_row& row, const task_view& view) {
    return is_closed(row.state) || view.state == task_state::input_required;
}

std::string status_update(const task_row& row, const task_view& view) {
    return dumped({{"statusUpdate",
                    {{"taskId", row.id},
                     {"contextId", view.context},
                     {"status", status_json(row, view)},
                     {"metadata",
                      {{"shrooms/held", row.state == task_state::held},
                       {"shrooms/queued", view.queued},
                       {"shrooms/stalled", row.stalled}}},
                     {"final", is_final(row, view)}}}});
}

task<> follow_changes(services& with, int client, const std::string& id, task_row row,
                      const std::shared_ptr<session>& worker, const waiting_client& who) {
    task_board& board = *with.tasks;
    task_view view = board.view(row);
    if (!co_await send_data(with, client, rpc_reply(id, dumped({{"task", task_json(row, view)}})))) co_return;
    std::string last = is_final(row, view) ? std::string() : status_update(row, view);
    while (!who.gone && !with.stopping) {
        const auto now = board.kept().find(row.number);
        if (!now) co_return; // deleted
        view = board.view(*now, false);
        std::string next = status_update(*now, view);
        if (next != last) {
            last = std::move(next);
            if (!co_await send_data(with, client, rpc_reply(id, last))) co_return;
            if (is_final(*now, view)) co_return;
            continue; // it may have changed meanwhile
        }
        if (co_await wait_within(with.owned.ring(), worker->changed, keepalive)) continue;
        const std::string alive = http::chunk(": keepalive\n\n");
        if (co_await send_all(with.owned.ring(), client, std::as_bytes(std::span(alive))) < 0) co_return;
    }
}

task<> stream(services& with, const exchange& asked, const std::string& id, task_row row) {
    task_board& board = *with.tasks;
    const std::shared_ptr<session> worker = board.worker_of(row);
    if (!worker || !board.may_watch())
        throw task_refusal(429, rpc_code::not_supported,
                           "too many follow tasks at the moment: ask with GetTask");
    const std::string head = http::chunked_head("text/event-stream");
    if (co_await send_all(with.owned.ring(), asked.client, std::as_bytes(std::span(head))) < 0) co_return;
    const task_board::watch seen(board, row.number);
    const auto who = std::make_shared<waiting_client>();
    with.owned.group().spawn(watch_client, &with.owned.ring(), asked.client, worker, who);
    std::exception_ptr error;
    try {
        co_await follow_changes(with, asked.client, id, std::move(row), worker, *who);
    } catch (...) {
        error = std::current_exception();
    }
    const std::string end = http::chunk("");
    std::ignore = co_await send_all(with.owned.ring(), asked.client, std::as_bytes(std::span(end)));
    co_await forget_client(with.owned.ring(), asked.client, *who);
    if (error) std::rethrow_exception(error);
}

// ---- the methods ----

json result_of(rpc_method asked, json task) {
    const bool is_sent = asked == rpc_method::send;
    return is_sent ? json{{"task", std::move(task)}} : task_result(std::move(task));
}

std::shared_ptr<session> worker_named(services& with, const exchange& asked, const rpc_request& what) {
    if (what.session.empty())
        throw task_refusal(404, rpc_code::bad_params,
                           "which session? ask at /a2a/SESSION, or name shrooms/session");
    const auto found = with.listed->all().find(what.session);
    if (found == with.listed->all().end() || !asked.shows.sees(found->second->settings()))
        throw task_refusal(404, rpc_code::bad_params,
                           fmt::format("there is no session \"{}\" here", one_line(what.session, 64)));
    return found->second;
}

// What an ask that does not say so means: the specification of A2A 1.0 has it wait, Shrooms agents do not.
bool waits_by_itself(const exchange& asked) {
    return asked.request.field("a2a-version").starts_with("1.");
}

// The row to answer with; nothing where the answer was sent already, or is a list.
task<std::optional<http::response>> perform(services& with, const exchange& asked, const rpc_request& what,
                                            const asker& who) {
    task_board& board = *with.tasks;
    const bool is_for_cages = what.method == rpc_method::send || what.method == rpc_method::stream ||
                              what.method == rpc_method::get || what.method == rpc_method::acknowledge;
    if (who.caged && !is_for_cages)
        throw task_refusal(403, rpc_code::not_supported, "this is not for agents in cages");
    if (what.method == rpc_method::list)
        co_return rpc_answer(rpc_reply(what.id, dumped(board.list(what, asked.shows))));
    const auto find = [&] {
        task_row found = board.find(what, who);
        if (!board.shows(found, asked.shows)) task_board::no_such_task(what.task);
        return found;
    };
    task_row row;
    switch (what.method) {
    case rpc_method::send:
    case rpc_method::stream: row = board.ask(worker_named(with, asked, what), what, who); break;
    case rpc_method::cancel: row = board.cancel(find(), "", false, who.shown()); break;
    case rpc_method::acknowledge: row = board.acknowledge(find()); break;
    default: row = find(); break;
    }
    if (what.method == rpc_method::stream || what.method == rpc_method::subscribe) {
        co_await stream(with, asked, what.id, std::move(row));
        co_return std::nullopt;
    }
    if (what.method == rpc_method::send && what.blocking.value_or(waits_by_itself(asked)))
        co_await hold(with, asked, row);
    task_view view = board.view(row);
    cut_history(view, what.history);
    co_return rpc_answer(rpc_reply(what.id, dumped(result_of(what.method, task_json(row, view)))));
}

} // namespace

task<std::optional<http::response>> call_agent(services& with, exchange& asked) {
    const auto request = read_rpc(asked.request.body, asked.name);
    if (!request) co_return rpc_answer(rpc_reply(request.error()));
    const asker who = co_await with.tasks->who(
        {.address = asked.by, .caged = caged_session(asked.request), .claim = request->claimed_from});
    rpc_failure failed{.id = request->id};
    try {
        co_return co_await perform(with, asked, *request, who);
    } catch (const task_refusal& error) {
        failed.code = error.code();
        failed.text = error.what();
    } catch (const session_refusal& error) {
        failed.code = rpc_code::bad_params;
        failed.text = error.what();
    } catch (const store_failure& error) {
        failed.text = error.what();
    }
    co_return rpc_answer(rpc_reply(failed));
}

// ---- cards ----

task<std::optional<http::response>> show_machine_card(services& with, exchange& asked) {
    std::vector<carded_session> sessions;
    for (const auto& [name, each] : with.listed->all())
        if (asked.shows.sees(each->settings())) sessions.push_back({name, each->row().harness});
    const std::vector<machine> known = co_await with.tasks->machines();
    co_return answer_json(
        machine_card(known.front().name, std::string(asked.request.field("host")), sessions));
}

task<std::optional<http::response>> show_session_card(services& with, exchange& asked) {
    const std::shared_ptr<session> one = session_of(with, asked);
    const std::vector<machine> known = co_await with.tasks->machines();
    co_return answer_json(session_card(known.front().name, std::string(asked.request.field("host")),
                                       {one->row().name, one->row().harness}));
}

} // namespace pinfold
