// All tasks of this machine's sessions: taken or held, given to their workers one after the other, reminded of, ended,
// and told of to whoever asked.
#pragma once

#include "agent/proxy/machines.hpp"
#include "agent/sessions/session_list.hpp"
#include "agent/tasks/a2a.hpp"
#include "agent/tasks/asker.hpp"
#include "agent/tasks/receivers.hpp"
#include "agent/tasks/task_json.hpp"
#include "agent/tasks/task_store.hpp"
#include "agent/tasks/task_text.hpp"

#include <deque>
#include <functional>

namespace pinfold {

[[nodiscard]] unix_milliseconds system_now() noexcept;

// A request about a task that cannot be done: by /v1 it is the status, by A2A the code.
class task_refusal : public session_refusal {
public:
    task_refusal(int status, int code, const std::string& text)
        : session_refusal(status, text), code_(code) {}
    [[nodiscard]] int code() const noexcept { return code_; }

private:
    int code_;
};

// Takes what a session made to who asked for it, before that one is told. The line for the note; empty = nothing to tell.
class results_carrier {
public:
    virtual task<std::string> carry(std::string session, task_row of) = 0;

protected:
    ~results_carrier() = default;
};

class task_board {
public:
    static constexpr std::int64_t most_hourly = 30;               // new tasks of one device for one session
    static constexpr std::size_t most_open = 100, most_held = 10; // of one session; held: of one device, too
    static constexpr std::size_t most_holds = 64;                 // askers that wait at once
    static constexpr std::size_t most_requests = 10;              // files that were refused, of one session

    struct settings {
        std::function<unix_milliseconds()> now = system_now; // the clock of everything here
        std::chrono::milliseconds look = std::chrono::seconds(30);
        std::chrono::milliseconds hold = std::chrono::minutes(10); // of a blocking SendMessage
        machine_list::settings machines;
        std::uint16_t port = 7387; // of other machines' agents
        results_carrier* carrier = nullptr;
    };

    // Reads what is kept. Throws store_failure.
    task_board(session_list& listed, settings with);
    task_board(const task_board&) = delete;
    task_board& operator=(const task_board&) = delete;
    ~task_board() = default;

    // Gives and reminds until the agent stops. Spawned once.
    task<> run();

    [[nodiscard]] task_store& kept() noexcept { return kept_; }
    [[nodiscard]] unix_milliseconds now() const { return with_.now(); }
    // This machine first; it alone where the others are not known at the moment.
    task<std::vector<machine>> machines();
    task<std::vector<mesh>> meshes();            // none where they are not known
    task<viewer> who_looks(std::string address); // at this machine's sessions
    task<asker> who(arrival what);
    task<std::vector<receiver>> look_at_receivers(); // of the other machines

    // Each throws task_refusal, session_refusal or store_failure; nothing was done then.
    task_row ask(const std::shared_ptr<session>& worker, const rpc_request& what, const asker& who);
    // One that it may see: a cage sees its own only, as asker or as worker.
    [[nodiscard]] task_row find(const rpc_request& what, const asker& who);
    [[nodiscard]] task_row find(std::string_view id);
    // As ListTasks answers it: a page of those that are asked for.
    [[nodiscard]] nlohmann::json list(const rpc_request& what, const viewer& who);
    // Whether its session is one of those that the caller is told of.
    [[nodiscard]] bool shows(const task_row& task, const viewer& who) const;
    [[noreturn]] static void no_such_task(std::string_view id); // throws task_refusal (404)
    // Before a report: what the session made goes to who asked, so that it is there when the end is told. Does not wait
    // longer than the tool by which a worker reports.
    task<> bring_results(std::string id, std::string state);
    task_row report(std::string_view id, std::string_view state, const std::string& summary);
    task_row cancel(task_row task, const std::string& why, bool tell_asker, const std::string& by);
    task_row acknowledge(task_row task);
    task_row answer(task_row task, std::string text, const std::string& by);
    task_row nudge(task_row task);
    // The owner's word on a held task.
    task_row allow(task_row task, bool always, const std::string& by);
    task_row decline(task_row task, const std::string& reason, const std::string& by);

    // The session's settings changed: what was held for them may go on.
    void reconsider(const std::shared_ptr<session>& worker);
    // It was interrupted by its owner: no reminders until somebody says something to it.
    void pause(const session& worker) { paused_.insert_or_assign(worker.row().id, worker.row().last_seq); }
    // It is about to be deleted: whoever asked it is told.
    void worker_leaves(const std::shared_ptr<session>& worker);

    [[nodiscard]] std::shared_ptr<session> worker_of(const task_row& task) const; // null = deleted
    [[nodiscard]] task_view view(const task_row& task, bool with_messages = true);
    // Nothing more comes of waiting for it: closed, in need of an answer, or held.
    [[nodiscard]] bool is_settled(const task_row& task) const;

    // Someone waits for this task and will see the result: no note tells it a second time.
    class watch {
    public:
        watch(task_board& of, std::int64_t task) : of_(of), task_(task) { ++of_.watched_[task_]; }
        watch(const watch&) = delete;
        watch& operator=(const watch&) = delete;
        ~watch() {
            if (--of_.watched_[task_] == 0) of_.watched_.erase(task_);
        }

    private:
        task_board& of_;
        std::int64_t task_;
    };
    [[nodiscard]] bool may_watch() const noexcept { return watched_.size() < most_holds; }
    [[nodiscard]] std::chrono::milliseconds hold_time() const noexcept { return with_.hold; }
    [[nodiscard]] session_list& listed() noexcept { return listed_; }

private:
    using worker_pointer = std::shared_ptr<session>;

    task_row add(const worker_pointer& worker, const rpc_request& what, const asker& who);
    task_row follow_up(task_row task, const rpc_request& what, const std::string& from);
    task<known_machines> known(); // nothing where that cannot be said at the moment
    [[nodiscard]] bool may_see(const task_row& task, const asker& who) const;
    void refuse_flood(const worker_pointer& worker, const task_row& fresh);
    void keep(task_row& task, const std::string& by, bool tell_asker);
    void tell_session(const task_row& task, const std::string& by) const;
    [[nodiscard]] std::string last_line(const task_row& task, const session& worker) const;

    struct errand { // to who asked, with what a session made
        event done;
        std::string line; // for the note
    };
    [[nodiscard]] std::shared_ptr<errand> errand_of(const task_row& task);
    static task<> run_errand(task_board* self, std::shared_ptr<errand> what, std::string session,
                             task_row of);
    void add_results(task_row& task) const;
    [[nodiscard]] bool has_errand(std::int64_t task) const;

    void wake(const worker_pointer& worker);
    static task<> pump(task_board* self, worker_pointer worker);
    [[nodiscard]] std::optional<task_row> choose(std::int64_t session);
    task<bool> give_next(worker_pointer worker);
    static task<> say(task_board* self, worker_pointer worker, std::string text, std::string id);

    void look();
    static task<> run_again(task_board* self);
    void expire(std::vector<task_row>& open);
    [[nodiscard]] bool is_paused(std::int64_t session);
    void remind(const worker_pointer& worker, task_row task);
    static task<> send_note(task_board* self, task_row task);
    task<bool> deliver_note(const task_row& task, const std::string& text);

    session_list& listed_;
    settings with_;
    task_store kept_;
    machine_list machines_;
    std::set<std::int64_t> pumping_, again_, noting_;         // sessions; noting_: tasks
    std::map<std::int64_t, std::uint64_t> paused_;            // sessions, with their last event then
    std::map<std::int64_t, int> watched_;                     // tasks
    std::map<std::int64_t, std::shared_ptr<errand>> errands_; // tasks
    std::map<std::int64_t, std::deque<unix_milliseconds>> nudged_;
    bool looking_ = false; // from time to time
};

} // namespace pinfold
