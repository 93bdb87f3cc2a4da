// The owner's cages and uncaged programs: making, entering, ending them, and what is known of each.
#pragma once

#include "agent/denial_log.hpp"
#include "agent/host_program.hpp"
#include "agent/keeper_link.hpp"
#include "agent/relay/relay.hpp"
#include "agent/run_request.hpp"
#include "agent/verdict.hpp"

#include <deque>
#include <map>
#include <memory>

namespace pinfold {

// The API says 404, 409.
class unknown_cage : public failure {
public:
    using failure::failure;
};
class name_taken : public failure {
public:
    using failure::failure;
};

// As the keeper names its cgroup and its pins.
[[nodiscard]] std::string cage_id_text(std::uint64_t cage);

struct cage_record {
    std::string name;
    run_mode mode = run_mode::sealed;
    std::uint64_t id = 0; // 0 = uncaged, or not made yet
    std::filesystem::path directory;
    std::string image;
    limits_spec limits;
    std::vector<std::string> notes;
    std::uint64_t started_unix = 0;
    std::uint64_t denials = 0;
    std::uint32_t pid = 0; // uncaged
    bool scratch = false;  // the doctor's
    std::shared_ptr<program> first;
};

class cages final : public keeper_link::observer {
public:
    struct settings {
        std::filesystem::path keeper;
        std::filesystem::path resolv_conf;
        std::uint64_t file_limit = 1024; // what an uncaged program may open
    };

    cages(uring& ring, task_group& group, settings from);
    cages(const cages&) = delete;
    cages& operator=(const cages&) = delete;
    ~cages() = default;

    [[nodiscard]] keeper_link& keeper() noexcept { return keeper_; }
    [[nodiscard]] denial_log& denials() noexcept { return denials_; }
    [[nodiscard]] uring& ring() noexcept { return ring_; }
    [[nodiscard]] task_group& group() noexcept { return group_; }

    // From the request to the first instruction. What it returns is forgotten by forget(), once it has ended.
    task<std::shared_ptr<cage_record>> run(run_request request);
    void forget(const cage_record& what);
    // One more program in a cage, also in one that another connection made.
    task<std::shared_ptr<program>> exec(std::string name, command_request request);
    // A scratch cage that runs the built-in probe.
    task<std::shared_ptr<cage_record>> probe(cage_mode mode);

    task<> remove(std::string name);
    task<limits_spec> change_limits(std::string name, std::function<void(limits_spec&)> change);
    task<std::vector<std::string>> plan(run_request request);

    // What the keeper lists, with the owner's uncaged programs behind. Throws keeper_unreachable.
    task<std::vector<wire::cage_state>> list();
    [[nodiscard]] std::vector<std::shared_ptr<cage_record>> known() const;
    [[nodiscard]] std::shared_ptr<cage_record> find(std::string_view name) const;
    [[nodiscard]] const std::filesystem::path& resolv_conf() const noexcept { return settings_.resolv_conf; }
    [[nodiscard]] const relay& way_out() const noexcept { return relay_; }
    // A port of 192.0.0.1 in every cage that this agent answers itself.
    void offer(gateway_service service) { relay_.offer(std::move(service)); }
    [[nodiscard]] relay_figures network(std::uint64_t cage) const { return relay_.figures(cage); }

private:
    void program_ended(const wire::ended& what) override;
    void denials_came(const wire::denials& what) override;
    void keeper_connected() override;
    void keeper_lost() override;

    void relay_refused(const relay_refusal& what);

    [[nodiscard]] std::shared_ptr<cage_record> claim(const run_request& request);
    task<> make(std::shared_ptr<cage_record> record, wire::body request);
    task<> build(std::shared_ptr<cage_record> record, wire::body request);
    void finish_all(std::uint64_t cage, const program_end& how);
    void remember_name(std::uint64_t cage, const std::string& name);
    void run_uncaged(const std::shared_ptr<cage_record>& record, const command_request& request);
    task<wire::cage_state> state_of(std::string name);
    task<> look_again();
    task<> claim(std::shared_ptr<cage_record> record);

    uring& ring_;
    task_group& group_;
    settings settings_;
    keeper_link keeper_;
    relay relay_;
    denial_log denials_;
    sealed_verdict verdict_{*this};
    std::map<std::string, std::shared_ptr<cage_record>, std::less<>> by_name_;
    std::map<std::uint64_t, std::shared_ptr<cage_record>> by_id_;
    std::map<std::pair<std::uint64_t, std::uint32_t>, std::weak_ptr<program>> programs_; // cage, process
    std::map<std::uint64_t, std::string> names_; // also of cages that ended: their last denials come late
    std::deque<std::uint64_t> named_;            // the order they came in
};

} // namespace pinfold
