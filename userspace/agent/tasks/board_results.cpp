// What a sealed session made for a task: carried to who asked before the end is told, once, whether or not it is waited for.
#include "agent/tasks/task_board.hpp"

namespace pinfold {

namespace {

constexpr std::chrono::seconds carry_time{20}; // a worker's tool waits for thirty
constexpr std::size_t most_remembered = 256;

} // namespace

std::shared_ptr<task_board::errand> task_board::errand_of(const task_row& task) {
    const worker_pointer worker = worker_of(task);
    if (with_.carrier == nullptr || task.asker.empty() || !worker) return nullptr;
    if (const auto known = errands_.find(task.number); known != errands_.end()) return known->second;
    if (errands_.size() >= most_remembered) // the carrier itself sends nothing twice
        std::erase_if(errands_, [](const auto& each) { return each.second->done.is_set(); });
    auto made = std::make_shared<errand>();
    errands_.emplace(task.number, made);
    listed_.world().group.spawn(&task_board::run_errand, this, made, worker->row().name, task);
    return made;
}

task<> task_board::run_errand(task_board* self, std::shared_ptr<errand> what, std::string session,
                              task_row of) {
    what->line = co_await self->with_.carrier->carry(std::move(session), std::move(of));
    what->done.set();
}

task<> task_board::bring_results(std::string id, std::string state) {
    const task_row task = find(id);
    const auto wanted = reported_state(state);
    if (!wanted || !is_closed(*wanted) || is_closed(task.state) || task.began == 0)
        co_return; // report() says why
    const auto going = errand_of(task);
    if (going && !going->done.is_set())
        std::ignore = co_await wait_within(listed_.world().ring, going->done, carry_time);
}

// Who waits in a blocking ask or a stream gets no note: its result says what was sent.
void task_board::add_results(task_row& task) const {
    const auto known = errands_.find(task.number);
    if (known == errands_.end() || !known->second->done.is_set() || known->second->line.empty()) return;
    task.summary += (task.summary.empty() ? "" : "\n\n") + known->second->line;
}

bool task_board::has_errand(std::int64_t task) const {
    const auto known = errands_.find(task);
    return known != errands_.end() && !known->second->done.is_set();
}

} // namespace pinfold
