#include "agent/tasks/task_board.hpp"

#include "agent/sessions/event_text.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

namespace pinfold {

namespace {

constexpr std::size_t longest_summary = 20'000; // characters

[[noreturn]] void refuse(int status, int code, const std::string& text) {
    throw task_refusal(status, code, text);
}

// MACHINE/SESSION as it was written down when it asked from a cage.
asker named_asker(const std::string& name) {
    const std::size_t slash = name.find('/');
    asker who{.caged = true};
    if (slash == std::string::npos) return who;
    who.machine = name.substr(0, slash);
    who.session = name.substr(slash + 1);
    return who;
}

bool is_taken(task_state state) {
    return !is_closed(state) && state != task_state::held;
}

} // namespace

unix_milliseconds system_now() noexcept {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

task_board::task_board(session_list& listed, settings with)
    : listed_(listed),
      with_(std::move(with)),
      kept_(listed.world().kept.file()),
      machines_(listed.world().ring, with_.machines) {}

void task_board::no_such_task(std::string_view id) {
    refuse(404, rpc_code::no_task, fmt::format("there is no task \"{}\" here", one_line(id, 100)));
}

// ---- who ----

task<known_machines> task_board::known() {
    try {
        co_return *co_await machines_.read();
    } catch (const std::exception& error) {
        spdlog::warn("the other machines are not known: {}", error.what());
    }
    co_return known_machines();
}

task<std::vector<machine>> task_board::machines() {
    std::vector<machine> all = (co_await known()).machines;
    if (all.empty()) all.push_back({listed_.world().with.machine, "::1"});
    co_return all;
}

task<std::vector<mesh>> task_board::meshes() {
    co_return (co_await known()).meshes;
}

task<viewer> task_board::who_looks(std::string address) {
    const auto is_limited = [](const auto& named) { return !named.second->settings().meshes.empty(); };
    if (address.empty() || std::ranges::none_of(listed_.all(), is_limited)) co_return viewer();
    const std::vector<mesh> all = co_await meshes();
    co_return pinfold::who_looks(address, all);
}

task<asker> task_board::who(arrival what) {
    const std::vector<machine> all = co_await machines();
    co_return who_asks(what, all);
}

std::shared_ptr<session> task_board::worker_of(const task_row& task) const {
    for (const auto& [name, each] : listed_.all()) {
        if (each->row().id == task.session) return each;
    }
    return nullptr;
}

bool task_board::shows(const task_row& task, const viewer& who) const {
    if (who.is_here) return true;
    const worker_pointer worker = worker_of(task);
    return !worker || who.sees(worker->settings());
}

bool task_board::may_see(const task_row& task, const asker& who) const {
    if (!who.caged) return true;
    if (!who.name().empty() && task.asker == who.name() && task.address == who.address) return true;
    const worker_pointer worker = worker_of(task);
    return who.local && worker && worker->row().name == who.session;
}

task_row task_board::find(std::string_view id) {
    auto found = kept_.find(id);
    if (!found) no_such_task(id);
    return std::move(*found);
}

task_row task_board::find(const rpc_request& what, const asker& who) {
    auto found = kept_.find(what.task);
    if (!what.session.empty()) {
        const auto worker = listed_.all().find(what.session);
        // At a session's own address the part behind the ':' is enough.
        if (!found && worker != listed_.all().end()) found = kept_.find(worker->second->row().id, what.task);
        const bool is_elsewhere = found && !what.task.starts_with(what.session + ":") &&
                                  (worker == listed_.all().end() ||
                                   worker->second->row().id != found->session);
        if (is_elsewhere) found.reset();
    }
    if (!found || !may_see(*found, who)) no_such_task(what.task);
    return std::move(*found);
}

// ---- asking ----

task_row task_board::ask(const worker_pointer& worker, const rpc_request& what, const asker& who) {
    if (!what.task.empty()) {
        task_row task = find(what, who);
        if (task.session != worker->row().id) no_such_task(what.task);
        return follow_up(std::move(task), what, who.shown());
    }
    if (auto known = kept_.find(worker->row().id, what.message)) {
        if (may_see(*known, who)) return std::move(*known); // the same again is the same task
        refuse(409, rpc_code::bad_params, "params.message.messageId: is another task's");
    }
    return add(worker, what, who);
}

// A caged agent that floods fills its own share, and never the owner's.
void task_board::refuse_flood(const worker_pointer& worker, const task_row& fresh) {
    const std::string& name = worker->row().name;
    if (kept_.count_since(fresh.session, fresh.device, fresh.caged, fresh.created - hour_ms) >= most_hourly)
        refuse(429, rpc_code::too_many,
               fmt::format(
                   "session \"{}\" takes {} new tasks an hour from {}; send more to those that are open, "
                   "or ask later",
                   name, most_hourly, fresh.device));
    std::size_t taken = 0, held = 0;
    for (const task_row& each : kept_.open(fresh.session)) {
        if (each.state != task_state::held)
            ++taken;
        else if (each.device == fresh.device)
            ++held;
    }
    if (fresh.state == task_state::held && held >= most_held)
        refuse(429, rpc_code::too_many,
               fmt::format("{} tasks of {} wait already for the owner of \"{}\" to allow them", held,
                           fresh.device, name));
    if (fresh.state != task_state::held && taken >= most_open)
        refuse(429, rpc_code::too_many,
               fmt::format("session \"{}\" has {} open tasks; ask later", name, taken));
}

task_row task_board::add(const worker_pointer& worker, const rpc_request& what, const asker& who) {
    task_row task{.session = worker->row().id,
                  .id = worker->row().name + ":" + what.message,
                  .message = what.message,
                  .state = takes_from(worker->settings(), worker->options().cage.has_value(), who)
                               ? task_state::submitted
                               : task_state::held,
                  .title = what.title,
                  .from = who.shown(),
                  .asker = who.name(),
                  .address = who.address,
                  .device = who.device(),
                  .caged = who.caged,
                  .created = now()};
    task.changed = task.created;
    if (kept_.find(task.id)) // of a session that was renamed since
        refuse(409, rpc_code::bad_params, "params.message.messageId: is another task's");
    refuse_flood(worker, task);
    kept_.add(task, {.id = what.message, .text = what.text, .from = task.from});
    tell_session(task, task.from);
    if (task.state == task_state::submitted) wake(worker);
    if (!std::exchange(looking_, true)) listed_.world().group.spawn(&task_board::run_again, this);
    return task;
}

// Once taken, a task goes on: neither counted nor held again. What the worker had put down comes before what is new.
task_row task_board::follow_up(task_row task, const rpc_request& what, const std::string& from) {
    if (is_closed(task.state))
        refuse(409, rpc_code::not_supported,
               fmt::format("task {} is {}: ask anew", task.id, word_of(task.state)));
    if (task.state == task_state::input_required || (task.state == task_state::working && task.stalled)) {
        task.state = task_state::submitted;
        task.summary.clear();
    }
    task.stalled = false;
    task.changed = now();
    task.note.clear();
    if (!kept_.add_message(task, {.id = what.message, .text = what.text, .from = from})) return find(task.id);
    tell_session(task, from);
    if (const worker_pointer worker = worker_of(task); worker && is_taken(task.state)) wake(worker);
    return task;
}

task_row task_board::answer(task_row task, std::string text, const std::string& by) {
    const rpc_request what{.message = fmt::format("answer-{}-{}", now(), kept_.messages(task.number).size()),
                           .text = std::move(text)};
    return follow_up(std::move(task), what, by);
}

// ---- how it goes on ----

void task_board::tell_session(const task_row& task, const std::string& by) const {
    const worker_pointer worker = worker_of(task);
    if (!worker) return;
    const nlohmann::json data{{"id", task.id},
                              {"state", task.stalled   ? "stalled"
                                        : task.expired ? "expired"
                                                       : word_of(task.state)},
                              {"summary", cut(task.summary, listed_text)}};
    worker->record("task", by, data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    worker->changed.pulse();
}

// A note is due in the same write as its reason, so that it outlives the agent.
void task_board::keep(task_row& task, const std::string& by, bool tell_asker) {
    task.changed = now();
    if (is_closed(task.state)) {
        task.stalled = false;
        if (const worker_pointer worker = worker_of(task)) task.last_line = last_line(task, *worker);
    }
    const bool is_seen = task.state != task_state::input_required && watched_.contains(task.number) &&
                         !has_errand(task.number);
    const bool is_due = tell_asker && !task.asker.empty() && !is_seen;
    task.note = is_due ? fmt::format("tasknote-{}-{}-{}000000", task.id, word_of(task.state), task.changed)
                       : std::string();
    kept_.update(task);
    tell_session(task, by);
    if (is_due) listed_.world().group.spawn(&task_board::send_note, this, task);
    if (const worker_pointer worker = worker_of(task)) wake(worker);
}

task_row task_board::report(std::string_view id, std::string_view word, const std::string& summary) {
    task_row task = find(id);
    const auto state = reported_state(word);
    if (!state) refuse(409, rpc_code::bad_params, "state: must be done, blocked or failed");
    if (is_closed(task.state))
        refuse(409, rpc_code::not_supported,
               fmt::format("task {} is {} already", task.id, word_of(task.state)));
    if (task.began == 0)
        refuse(409, rpc_code::not_supported,
               fmt::format("task {} was not given to its worker yet; 'cancel' ends it", task.id));
    task.state = *state;
    task.stalled = false;
    task.summary = cut(summary, longest_summary);
    if (is_closed(task.state)) add_results(task);
    keep(task, "", true);
    return task;
}

task_row task_board::cancel(task_row task, const std::string& why, bool tell_asker, const std::string& by) {
    if (is_closed(task.state))
        refuse(409, rpc_code::not_cancelable,
               fmt::format("task {} is {} already", task.id, word_of(task.state)));
    const bool is_with_worker = task.state == task_state::working && !task.stalled;
    task.state = task_state::canceled;
    task.summary = cut(why, longest_summary);
    keep(task, by, tell_asker);
    if (const worker_pointer worker = worker_of(task); worker && is_with_worker)
        listed_.world().group.spawn(&task_board::say, this, worker, cancel_text(task),
                                    fmt::format("task-{}-canceled", task.id));
    return task;
}

task_row task_board::acknowledge(task_row task) {
    if (!is_closed(task.state))
        refuse(
            409, rpc_code::not_supported,
            fmt::format("task {} is {}: there is nothing to acknowledge yet", task.id, word_of(task.state)));
    task.acknowledged = true;
    task.note.clear(); // it knows
    kept_.update(task);
    return task;
}

task_row task_board::nudge(task_row task) {
    const worker_pointer worker = worker_of(task);
    if (task.state != task_state::working || !worker)
        refuse(409, rpc_code::not_supported,
               fmt::format("task {} is {}: its worker has nothing to be reminded of", task.id,
                           word_of(task.state)));
    task.stalled = false;
    ++task.nudges;
    task.last_nudge = task.changed = now();
    kept_.update(task);
    nudged_[task.session].push_back(task.last_nudge);
    listed_.world().group.spawn(&task_board::say, this, worker, reminder_text(task),
                                fmt::format("task-{}-nudge-{}", task.id, task.last_nudge));
    return task;
}

// ---- the owner's word ----

task_row task_board::allow(task_row task, bool always, const std::string& by) {
    const worker_pointer worker = worker_of(task);
    if (task.state != task_state::held || !worker)
        refuse(409, rpc_code::not_supported, fmt::format("task {} waits for nobody's permission", task.id));
    if (always) {
        if (task.asker.empty())
            refuse(409, rpc_code::not_supported,
                   fmt::format("the asker of task {} has no name: allow this one", task.id));
        settings_change change;
        change.accept_caged_from = worker->settings().accept_caged_from;
        if (std::ranges::find(*change.accept_caged_from, task.asker) == change.accept_caged_from->end())
            change.accept_caged_from->push_back(task.asker);
        worker->change(change, by);
    }
    task.state = task_state::submitted;
    keep(task, by, false);
    if (always) reconsider(worker);
    return task;
}

task_row task_board::decline(task_row task, const std::string& reason, const std::string& by) {
    if (task.state != task_state::held)
        refuse(409, rpc_code::not_supported, fmt::format("task {} waits for nobody's permission", task.id));
    task.state = task_state::rejected;
    task.summary = reason.empty() ? "The owner of this session declined it." : cut(reason, longest_summary);
    keep(task, by, true);
    return task;
}

void task_board::reconsider(const worker_pointer& worker) {
    const bool is_caged = worker->options().cage.has_value();
    for (task_row& each : kept_.open(worker->row().id)) {
        if (each.state != task_state::held) continue;
        if (!takes_from(worker->settings(), is_caged, named_asker(each.asker))) continue;
        each.state = task_state::submitted;
        keep(each, "", false);
    }
    for (const file_request& each : kept_.requests(worker->row().id)) {
        if (is_listed(worker->settings().accept_files_from, named_asker(each.from)))
            kept_.remove_request(worker->row().id, each.from);
    }
}

void task_board::worker_leaves(const worker_pointer& worker) {
    for (task_row& each : kept_.open(worker->row().id)) {
        if (each.asker.empty()) continue;
        each.state = task_state::failed;
        each.summary = "The session that it was asked of was deleted.";
        each.note = fmt::format("tasknote-{}-deleted-{}000000", each.id, now());
        listed_.world().group.spawn(&task_board::send_note, this, each);
    }
}

} // namespace pinfold
