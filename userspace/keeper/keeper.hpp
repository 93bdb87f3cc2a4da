// The keeper: makes and destroys cages for the agents that ask, and watches over those that run.
#pragma once

#include "cage/cage.hpp"
#include "keeper/client.hpp"
#include "keeper/images.hpp"
#include "keeper/kill_log.hpp"
#include "keeper/loop.hpp"
#include "keeper/options.hpp"
#include "keeper/records.hpp"
#include "keeper/routes.hpp"

#include <map>
#include <memory>
#include <string>

namespace pinfold {

// A program that entered later, and the connection that asked for it: only that one is told of its end.
struct entered_program {
    caged_program program;
    int client_fd = -1;
};

// A cage and what is known about it beside itself.
struct held_cage {
    std::unique_ptr<cage> built;
    wire::cage_state state;
    int client_fd = -1;             // the connection that made it; -1 when adopted
    bool temporary = false;         // a scratch cage: nothing of it is kept
    std::uint64_t memory_kills = 0; // oom_kill events already told
    std::uint32_t next_process = 1;
    std::map<std::uint32_t, entered_program> entered;
};

class keeper {
public:
    explicit keeper(const keeper_options& options);
    keeper(const keeper&) = delete;
    keeper& operator=(const keeper&) = delete;
    ~keeper();

    void run(); // until SIGTERM or SIGINT; running cages stay, guarded

    // ---- what requests.cpp calls, each for one message of the table ----
    wire::message make(client& from, const cage_spec& spec);
    wire::message probe(client& from, cage_mode mode);
    void start(client& from, std::uint64_t id);
    wire::message enter(client& from, std::uint64_t id, const command_spec& command);
    void signal(client& from, std::uint64_t id, std::uint32_t process, std::uint32_t number);
    void set_limits(client& from, std::uint64_t id, const limits_spec& limits);
    [[nodiscard]] wire::cages list(const client& from);
    void remove(client& from, const std::string& name);
    [[nodiscard]] wire::plan_text plan_for(const client& from, const cage_spec& spec);
    [[nodiscard]] wire::facts facts(const client& from);
    void claim(client& from, std::uint64_t id);
    [[nodiscard]] wire::explained explain(const client& from, const wire::explain& asked);

private:
    wire::message build(client& from, const cage_spec& spec, int program_fd);
    held_cage& owned(const client& from, std::uint64_t id);
    [[nodiscard]] std::vector<wire::fact> needed_facts() const;
    void need_machine(const cage_spec& spec) const;
    [[nodiscard]] wire::fact idmap_fact(const client& from);
    [[nodiscard]] wire::fact cages_fact() const;
    [[nodiscard]] held_cage* find(std::uint32_t uid, const std::string& name);
    [[nodiscard]] cage_order order_for(const client& from, const cage_spec& spec, const image& from_image,
                                       std::uint32_t base);
    void watch(held_cage& what);
    void program_ended(std::uint64_t id, std::uint32_t number);
    void cage_ended(std::uint64_t id);
    void end(std::uint64_t id, exit_status status, bool by_kernel);
    void tell_memory(held_cage& what, wire::ended& into);
    void forget(std::uint64_t id);
    [[nodiscard]] wire::cage_state describe(const held_cage& what) const;

    void accept_clients();
    void serve(int fd, std::uint32_t events);
    void drop(int fd);
    void send_to(int fd, wire::message what);
    void tell_end(int maker, std::uint32_t owner,
                  const wire::ended& end); // the owner's agents when the maker is unknown
    void pass_denials();
    void take_over(); // adopts or removes what an earlier keeper left
    void adopt(const wire::cage_state& state);
    void sweep(std::uint64_t id);
    void await_claims();
    void end_unclaimed();
    [[nodiscard]] std::vector<std::uint64_t> unclaimed() const;
    [[nodiscard]] held_cage* find_denied(const pinfold_denial& what);
    void stop_on_signals();
    bool prepare_ahead(); // while idle; false when there is nothing left to prepare

    keeper_options options_;
    loop events_;
    unique_fd run_lock_;
    cgroup_tree cgroups_;
    cgroup anchor_;
    scratch places_;
    shared_trees trees_;
    guards guards_;
    steering steering_;
    spare_networks networks_;
    id_pool ids_;
    images images_;
    records records_;
    kept_files kept_;
    routes routes_;
    machine_facts facts_;
    kill_log kill_log_;
    unique_fd init_program_;
    unique_fd probe_program_;
    workshop tools_;
    unique_fd listener_;
    unique_fd signals_;
    unique_fd claim_timer_; // until the agents of adopted cages must have come back
    std::map<int, std::unique_ptr<client>> clients_;
    std::map<std::uint64_t, held_cage> cages_;
    std::uint64_t denials_dropped_ = 0; // for agents that did not read
};

// Root's whole attack surface: which message, when it may be sent, what it does.
void handle_request(keeper& target, client& from, wire::message request);

} // namespace pinfold
