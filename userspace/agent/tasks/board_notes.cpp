// What an asker is told when it does not wait for it: a message to its session, here or on its own machine.
#include "agent/proxy/peer.hpp"
#include "agent/tasks/task_board.hpp"

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

namespace pinfold {

namespace {

constexpr std::chrono::seconds answer_time{10};

std::string session_of(const task_row& task) {
    return task.asker.substr(task.asker.rfind('/') + 1);
}

} // namespace

// True: it has it, or never will. The id is the same each time, so a second sending is no second message.
task<bool> task_board::deliver_note(const task_row& task, const std::string& text) {
    const std::string to = session_of(task);
    if (task.address.empty()) {
        const auto found = listed_.all().find(to);
        if (found == listed_.all().end()) co_return true; // it was no session, or is none any more
        const worker_pointer asker = found->second;
        std::ignore = co_await asker->send(text, task.note, "task " + task.id);
        co_return true;
    }
    const std::string body = nlohmann::json{{"text", text}, {"id", task.note}}.dump(
        -1, ' ', false, nlohmann::json::error_handler_t::replace);
    const bool is_v6 = task.address.find(':') != std::string::npos;
    peer agent(listed_.world().ring);
    co_await agent.connect(task.address, with_.port);
    co_await agent.send(fmt::format("POST /v1/sessions/{}/messages HTTP/1.1\r\nHost: {}:{}\r\nContent-Type: "
                                    "application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{}",
                                    to, is_v6 ? "[" + task.address + "]" : task.address, with_.port,
                                    body.size(), body));
    const peer::answer answer = co_await agent.read_head(answer_time);
    co_return answer.status / 100 == 2 || answer.status == 400 || answer.status == 403 ||
        answer.status == 404;
}

task<> task_board::send_note(task_board* self, task_row task) {
    if (task.note.empty() || !self->noting_.insert(task.number).second) co_return;
    bool is_over = self->now() - task.changed >= day_ms;
    try {
        const std::vector<machine> known = co_await self->machines();
        std::string text = note_text(task, known.front().name);
        const bool has_results = task.state == task_state::completed || task.state == task_state::failed;
        if (const auto errand = has_results ? self->errand_of(task) : nullptr) {
            co_await errand->done.wait();
            if (text.find(errand->line) == std::string::npos) text += "\n" + errand->line;
        }
        is_over = co_await self->deliver_note(task, text) || is_over;
    } catch (const std::exception& error) {
        spdlog::warn("task {}: {} is not told yet: {}", task.id, task.asker, error.what());
    }
    self->noting_.erase(task.number);
    if (!is_over) co_return; // tried again at the next look
    auto latest = self->kept_.find(task.number);
    if (!latest || latest->note != task.note) co_return; // there is newer news
    latest->note.clear();
    self->kept_.update(*latest);
}

} // namespace pinfold
