// What happens to tasks by itself: each is given to its worker in turn, reminded of, and expires.
#include "agent/sessions/event_text.hpp"
#include "agent/tasks/task_board.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

namespace pinfold {

namespace {

constexpr unix_milliseconds closed_kept = 7 * day_ms;

} // namespace

// ---- what is shown ----

// The worker's last words since it got this task. What it said before is not the asker's business.
std::string task_board::last_line(const task_row& task, const session& worker) const {
    constexpr std::size_t looked_at = 50;
    if (task.began == 0) return {};
    for (const event_row& each : listed_.world().kept.said_before(worker.row().id, 0, looked_at)) {
        if (each.seq <= task.began_seq) break;
        const auto spoken = spoken_of(each);
        if (spoken && spoken->role == "assistant") return cut(spoken->text, longest_last_line);
    }
    return {};
}

task_view task_board::view(const task_row& task, bool with_messages) {
    task_view shown{.state = task.state, .last_line = task.last_line};
    if (const worker_pointer worker = worker_of(task)) {
        const session_row& row = worker->row();
        shown.session = row.name;
        shown.context = row.conversation.empty() ? row.name : row.conversation;
        if (task.state == task_state::working && !task.stalled && worker->state() == session_state::waiting)
            shown.state = task_state::input_required;
        if (task.state == task_state::working) shown.last_line = last_line(task, *worker);
    }
    shown.queued = task.state == task_state::submitted;
    if (with_messages) shown.asked = kept_.messages(task.number);
    return shown;
}

bool task_board::is_settled(const task_row& task) const {
    if (is_closed(task.state) || task.state == task_state::held || task.state == task_state::input_required)
        return true;
    const worker_pointer worker = worker_of(task);
    return !worker ||
           (task.state == task_state::working && !task.stalled && worker->state() == session_state::waiting);
}

// ---- to the worker ----

void task_board::wake(const worker_pointer& worker) {
    listed_.world().group.spawn(&task_board::pump, this, worker);
}

task<> task_board::pump(task_board* self, worker_pointer worker) {
    const std::int64_t id = worker->row().id;
    if (!self->pumping_.insert(id).second) {
        self->again_.insert(id);
        co_return;
    }
    do {
        self->again_.erase(id);
        try {
            while (co_await self->give_next(worker)) {
            }
        } catch (const std::exception& error) {
            spdlog::warn("session \"{}\" got no task: {}", worker->row().name, error.what());
        }
    } while (self->again_.contains(id));
    self->pumping_.erase(id);
}

// The task whose messages are to be given next: more to the one it works on, else what it had put down, else the oldest.
std::optional<task_row> task_board::choose(std::int64_t session) {
    std::optional<task_row> next;
    for (task_row& each : kept_.open(session)) {
        if (each.state == task_state::working && !each.stalled) return std::move(each);
        if (each.state != task_state::submitted) continue;
        const bool is_sooner = !next ||
                               (each.began > 0 && (next->began == 0 || each.changed < next->changed));
        if (is_sooner) next = std::move(each);
    }
    return next;
}

task<bool> task_board::give_next(worker_pointer worker) {
    auto next = choose(worker->row().id);
    if (!next || worker_of(*next) != worker || listed_.world().stopping.is_set()) co_return false;
    std::vector<task_message> given = kept_.messages(next->number);
    std::erase_if(given, [](const task_message& each) { return each.delivered; });
    if (given.empty()) co_return false;
    const std::uint64_t before = worker->row().last_seq;
    std::string trouble;
    try {
        // The same id after a kill: what the session had taken already is not said twice.
        std::ignore = co_await worker->send(work_text(*next, given, next->began == 0),
                                            fmt::format("task-{}-{}", next->id, given.back().number),
                                            next->from.empty() ? "shrooms" : next->from);
    } catch (const session_refusal& error) {
        trouble = error.what();
    }
    auto task = kept_.find(next->number);
    if (!task) co_return false; // its session was deleted meanwhile
    if (!trouble.empty()) {
        const std::string summary = "It could not be given to the session yet: " + trouble;
        spdlog::warn("task {}: {}", task->id, trouble);
        if (task->state == task_state::submitted && task->summary != summary) {
            task->summary = summary;
            kept_.update(*task);
        }
        co_return false;
    }
    if (is_closed(task->state)) { // while the session was being started for it
        if (task->state == task_state::canceled)
            listed_.world().group.spawn(&task_board::say, this, worker, cancel_text(*task),
                                        fmt::format("task-{}-canceled", task->id));
        kept_.deliver(*task, given);
        co_return true;
    }
    const bool is_news = task->state != task_state::working || task->stalled;
    if (is_news) {
        task->state = task_state::working;
        task->stalled = false;
        task->summary.clear();
        task->began_seq = before;
        task->changed = now();
    }
    task->began = now();
    task->nudges = 0;
    kept_.deliver(*task, given);
    if (is_news) tell_session(*task, "");
    co_return true;
}

task<> task_board::say(task_board*, worker_pointer worker, std::string text, std::string id) {
    try {
        std::ignore = co_await worker->send(std::move(text), std::move(id), "shrooms");
    } catch (const std::exception& error) {
        spdlog::warn("session \"{}\" was not told of a task: {}", worker->row().name, error.what());
    }
}

// ---- by the clock ----

void task_board::expire(std::vector<task_row>& open) {
    for (task_row& each : open) {
        if (now() - each.created < day_ms) continue;
        each.expired = true;
        std::ignore = cancel(each, "It was open for a day.", true, "");
        each.state = task_state::canceled;
    }
    std::erase_if(open, [](const task_row& each) { return is_closed(each.state); });
}

bool task_board::is_paused(std::int64_t session) {
    constexpr std::size_t looked_at = 200; // an interrupted turn says little more
    const auto paused = paused_.find(session);
    if (paused == paused_.end()) return false;
    const auto later = listed_.world().kept.events(session, paused->second, looked_at);
    if (std::ranges::none_of(later, [](const event_row& each) { return each.kind == "message"; }))
        return true;
    paused_.erase(paused);
    return false;
}

void task_board::remind(const worker_pointer& worker, task_row task) {
    if (worker->state() != session_state::idle || is_paused(task.session)) return;
    const unix_milliseconds heard = std::max(
        {parse_time(worker->row().last_time), task.last_nudge, task.began});
    if (now() - heard < quiet_before(task.nudges, worker->row().harness)) return;
    if (task.nudges >= most_nudges) {
        task.stalled = true;
        kept_.update(task);
        tell_session(task, "");
        wake(worker);
        return;
    }
    std::deque<unix_milliseconds>& recent = nudged_[task.session];
    while (!recent.empty() && now() - recent.front() >= hour_ms) recent.pop_front();
    if (recent.size() < most_nudges_hourly) std::ignore = nudge(std::move(task));
}

void task_board::look() {
    std::vector<task_row> open = kept_.open();
    expire(open);
    std::set<worker_pointer> workers;
    for (task_row& each : open) {
        const worker_pointer worker = worker_of(each);
        if (!worker) continue;
        workers.insert(worker);
        if (each.state == task_state::working && !each.stalled) remind(worker, std::move(each));
    }
    for (const worker_pointer& each : workers) {
        reconsider(each); // it may have moved into a cage
        wake(each);       // what could not be given may be, by now
    }
    for (const task_row& each : kept_.with_note())
        listed_.world().group.spawn(&task_board::send_note, this, each);
    kept_.drop_closed(now() - closed_kept);
}

// Ends where no task is kept, and add() begins it again: an agent that nobody asks is not woken.
task<> task_board::run() {
    session_world& world = listed_.world();
    looking_ = true;
    while (!world.stopping.is_set()) {
        try {
            look();
            if (kept_.all().empty()) break;
        } catch (const std::exception& error) {
            spdlog::warn("tasks are not looked after at the moment: {}", error.what());
        }
        if (co_await wait_within(world.ring, world.stopping, with_.look)) co_return;
    }
    looking_ = false;
}

task<> task_board::run_again(task_board* self) {
    session_world& world = self->listed_.world();
    if (!co_await wait_within(world.ring, world.stopping, self->with_.look)) co_await self->run();
}

} // namespace pinfold
