// One session: what is kept of it, the program that runs for it, and everything that can be asked of it.
#pragma once

#include "agent/harness/harness.hpp"
#include "agent/sessions/draft.hpp"
#include "agent/sessions/listener.hpp"
#include "agent/sessions/provider_state.hpp"
#include "agent/sessions/world.hpp"

#include <functional>
#include <map>
#include <set>

namespace pinfold {

enum class session_state : std::uint8_t { idle, working, waiting };
[[nodiscard]] const char* to_string(session_state state) noexcept;

class session final : public std::enable_shared_from_this<session> {
public:
    // `row` is kept already.
    session(session_world& world, session_row row);
    ~session();
    session(const session&) = delete;
    session& operator=(const session&) = delete;

    [[nodiscard]] const session_row& row() const noexcept { return row_; }
    [[nodiscard]] const session_options& options() const noexcept { return options_; }
    [[nodiscard]] const session_settings& settings() const noexcept { return settings_; }
    [[nodiscard]] const harness::kind& kind() const noexcept { return kind_; }
    [[nodiscard]] session_state state() const noexcept;
    [[nodiscard]] const std::map<std::string, harness::asks>& pending() const noexcept { return pending_; }
    [[nodiscard]] bool is_gone() const noexcept { return gone_; } // it was deleted
    [[nodiscard]] bool runs() const noexcept { return run_ != nullptr; }
    // Why nothing can be kept at the moment; empty = it can.
    [[nodiscard]] const std::string& trouble() const noexcept { return trouble_; }

    // Each throws session_refusal with the status to answer, or store_failure; nothing was done then.
    enum class sent : std::uint8_t { taken, duplicate };
    task<sent> send(std::string text, std::string id, std::string by);
    task<> interrupt();
    void answer(const std::string& prompt, const harness::answer& what, const std::string& by);
    task<> restart(std::string by);
    task<> remake_cage(std::string reason); // stops it; its next start makes another
    task<> move(std::optional<cage_options> to, std::string by);
    task<> limit(limits_request to, std::string by);
    void change(const settings_change& what, const std::string& by);
    void rename(const std::string& to, const std::string& by);

    // Ends its program; `reason` is told. Nothing where none runs.
    task<> stop(std::string reason);
    // Every few seconds: stopped when idle for long, started again when it is kept running, what waits is delivered.
    task<> look();
    // At the agent's start, once.
    void resume_after_crash();
    // Its streams end; clients come again behind the last event they have.
    void hang_up();
    // It is deleted: its cage goes too.
    void leave();

    // What the gateway counted, and how the model's provider did.
    void count(std::uint64_t requests, std::uint64_t tokens_in, std::uint64_t tokens_out);
    void hear(const provider_answer& what);
    [[nodiscard]] const model_health& model() const noexcept { return model_; }

    // One more event, of something that befell it. Throws store_failure.
    void record(std::string kind, const std::string& by, std::string data);
    // Pulsed when its state, its prompts, what it said or one of its tasks has changed, and when it is deleted.
    event changed;
    void listen(listener& who) { listeners_.insert(&who); }
    void forget(listener& who) { listeners_.erase(&who); }

private:
    struct run;
    using self_pointer = std::shared_ptr<session>;
    using run_pointer = std::shared_ptr<run>;
    using draft = session_draft;
    void touch() noexcept { ++world_.passing; } // what it shows and does not keep has changed
    [[nodiscard]] draft begin() const;
    void keep(draft&& done);
    task<> keep_at_last(std::function<draft()> make);

    task<> start();
    task<> end(std::string reason);
    void look_after(); // at what its program left
    void refuse_move(const std::optional<cage_options>& to) const;
    [[nodiscard]] run_request make_request() const;
    void give(run& to, const std::string& bytes, bool last = false);
    void deliver(run& to, std::string_view text);
    task<> deliver_waiting();
    void absorb(run& from, const std::vector<harness::news>& list);
    void follow(run& from, const harness::news& each);
    void follow_provider(const harness::news& each);
    [[nodiscard]] bool answers_itself(const harness::asks& what) const;
    task<> finish(run_pointer what);

    static task<> read_output(self_pointer self, run_pointer what);
    static task<> read_errors(self_pointer self, run_pointer what);
    static task<> write_input(self_pointer self, run_pointer what);
    static task<> watch(self_pointer self, run_pointer what);
    static task<> go_on(self_pointer self);
    static task<> remove_cage(session_world* world, std::string name);
    task<> take(run_pointer from, std::vector<harness::news> list);

    session_world& world_;
    session_row row_;
    session_options options_;
    session_settings settings_;
    const harness::kind& kind_;
    run_pointer run_;
    std::map<std::string, harness::asks> pending_;
    std::set<listener*> listeners_;
    one_by_one turn_; // starting, stopping and moving: one after the other
    bool working_ = false, gone_ = false;
    std::string trouble_;
    model_health model_;
    std::chrono::steady_clock::time_point used_, started_, not_before_;
    unsigned quick_ends_ = 0; // in a row: so much longer the next start by itself waits
};

} // namespace pinfold
