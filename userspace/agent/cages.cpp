#include "agent/cages.hpp"

#include "agent/git_folder.hpp"
#include "agent/relay_denial.hpp"
#include "spec/validate.hpp"

#include <algorithm>
#include <csignal>
#include <ctime>
#include <spdlog/spdlog.h>

namespace pinfold {

namespace {

constexpr std::size_t most_names = 512;
constexpr int status_unknown = 255; // what the keeper says of a process that is not its child

class caged_program final : public program {
public:
    caged_program(keeper_link& keeper, std::string cage_name, std::uint64_t cage, std::uint32_t process)
        : keeper_(keeper), name_(std::move(cage_name)), cage_(cage), process_(process) {}

    task<> send_signal(int number) override {
        try {
            co_await keeper_.ask<wire::ok>(wire::signal_process{
                .cage = cage_, .process = process_, .signal = static_cast<std::uint32_t>(number)});
        } catch (const failure& error) {
            if (!ended.is_set())
                spdlog::warn("signal {} to a program of cage \"{}\": {}", number, name_, error.what());
        }
    }

    // By its number, not by the cage's name: that may be another cage's by now. Its first program takes a cage along.
    task<> kill() override { co_await send_signal(SIGKILL); }

private:
    keeper_link& keeper_;
    std::string name_;
    std::uint64_t cage_;
    std::uint32_t process_;
};

} // namespace

cages::cages(uring& ring, task_group& group, settings from)
    : ring_(ring),
      group_(group),
      settings_(std::move(from)),
      keeper_(ring, settings_.keeper, *this),
      relay_(ring, machine_destinations()) {
    relay_.tell_refusals([this](const relay_refusal& what) { relay_refused(what); });
}

std::string cage_id_text(std::uint64_t cage) {
    return fmt::format("{:016x}", cage);
}

// ---- making ----

// Before anything is asked of the keeper, so that two requests for one name cannot both go on.
std::shared_ptr<cage_record> cages::claim(const run_request& request) {
    auto record = std::make_shared<cage_record>();
    record->name = request.name;
    record->mode = request.mode;
    record->directory = request.directory;
    record->image = request.image;
    record->limits = request.limits;
    if (!by_name_.try_emplace(record->name, record).second)
        throw name_taken(fmt::format("there is a cage \"{}\" already; take another name, or 'pinfold rm {}'",
                                     record->name, record->name));
    return record;
}

task<std::shared_ptr<cage_record>> cages::run(run_request request) {
    while (request.name.empty()) {
        std::string made_up = make_up_name();
        if (!find(made_up)) request.name = std::move(made_up);
    }
    if (!is_name(request.name))
        throw bad_request(
            "name: must be 1 to 64 of a-z, 0-9, '.', '_' and '-', and begin with a letter or a digit");
    request.directory = canonical_directory(request.directory);
    if (request.mode == run_mode::uncaged) {
        auto record = claim(request);
        try {
            run_uncaged(record, request.command);
        } catch (...) {
            forget(*record);
            throw;
        }
        co_return record;
    }
    if (request.read_only_git) complete_git_folder(request.directory);
    const cage_spec spec = make_spec(request, read_resolv_conf(settings_.resolv_conf));
    if (request.mode == run_mode::sealed) co_await verdict_.need(request.name);
    auto record = claim(request);
    co_await make(record, wire::make{.spec = spec});
    co_return record;
}

task<std::shared_ptr<cage_record>> cages::probe(cage_mode mode) {
    auto record = std::make_shared<cage_record>();
    record->name = mode == cage_mode::sealed ? "doctor-sealed" : "doctor-caged";
    record->mode = mode == cage_mode::sealed ? run_mode::sealed : run_mode::caged;
    record->scratch = true;
    co_await make(record, wire::probe{.mode = mode});
    co_return record;
}

// Undoes what was done where a step fails; no handler can wait for the keeper, so the error is kept meanwhile.
task<> cages::make(std::shared_ptr<cage_record> record, wire::body request) {
    std::exception_ptr error;
    bool is_left = true;
    try {
        co_await build(record, std::move(request));
    } catch (const keeper_refused&) {
        is_left = false; // whatever step the keeper could not do, it has undone those before
        error = std::current_exception();
    } catch (...) {
        error = std::current_exception();
    }
    if (!error) co_return;
    if (is_left && record->first && keeper_.connected()) co_await record->first->kill();
    forget(*record);
    std::rethrow_exception(error);
}

task<> cages::build(std::shared_ptr<cage_record> record, wire::body request) {
    auto [made, fds] = co_await keeper_.ask<wire::made>(std::move(request));
    record->first = std::make_shared<caged_program>(keeper_, record->name, made.cage, 0);
    record->id = made.cage;
    record->notes = made.notes;
    record->started_unix = static_cast<std::uint64_t>(std::time(nullptr));
    by_id_.emplace(made.cage, record);
    programs_.emplace(std::pair(made.cage, 0U), record->first);
    remember_name(made.cage, record->name);

    if (fds.size() < 2) fail("the keeper handed over a cage without its network");
    const bool caged = record->mode == run_mode::caged;
    relay_.add(
        {.id = made.cage,
         .mode = caged ? cage_mode::caged : cage_mode::sealed,
         .tun = std::move(fds[0]),
         .listener = std::move(fds[1]),
         .resolvers = caged ? read_resolv_conf(settings_.resolv_conf).servers : std::vector<std::string>{}});
    fds.erase(fds.begin(), fds.begin() + 2);
    record->first->streams = program_streams::from(std::move(fds), made.terminal);
    co_await keeper_.ask<wire::ok>(wire::start{.cage = made.cage}); // from here on its code runs
}

void cages::remember_name(std::uint64_t cage, const std::string& name) {
    if (!names_.insert_or_assign(cage, name).second) return;
    named_.push_back(cage);
    if (named_.size() <= most_names) return;
    names_.erase(named_.front());
    named_.pop_front();
}

void cages::run_uncaged(const std::shared_ptr<cage_record>& record, const command_request& request) {
    const command_spec command = make_command(request, run_mode::uncaged, record->name, record->directory);
    auto started = host_program::start(ring_, command, settings_.file_limit);
    record->pid = static_cast<std::uint32_t>(started->pid());
    record->started_unix = static_cast<std::uint64_t>(std::time(nullptr));
    record->first = started;
    group_.spawn([](std::shared_ptr<host_program> one) -> task<> { co_await one->watch(one); }, started);
}

void cages::forget(const cage_record& what) {
    if (what.id != 0) {
        relay_.remove(what.id);
        by_id_.erase(what.id);
        programs_.erase(std::pair(what.id, 0U));
    }
    const auto found = by_name_.find(what.name);
    if (found != by_name_.end() && found->second.get() == &what) by_name_.erase(found);
}

task<std::shared_ptr<program>> cages::exec(std::string name, command_request request) {
    const std::shared_ptr<cage_record> own = find(name);
    if (own && own->mode == run_mode::uncaged) {
        const command_spec command = make_command(request, run_mode::uncaged, name, own->directory);
        auto started = host_program::start(ring_, command, settings_.file_limit);
        group_.spawn([](std::shared_ptr<host_program> one) -> task<> { co_await one->watch(one); }, started);
        co_return started;
    }
    const wire::cage_state state = co_await state_of(name);
    const run_mode mode = state.mode == cage_mode::caged ? run_mode::caged : run_mode::sealed;
    wire::exec question{
        .cage = state.cage,
        .command = make_command(request, mode, name, state.project.empty() ? "/root" : state.project)};
    auto [entered, fds] = co_await keeper_.ask<wire::entered>(std::move(question));
    auto started = std::make_shared<caged_program>(keeper_, name, state.cage, entered.process);
    started->streams = program_streams::from(std::move(fds), entered.terminal);
    programs_.insert_or_assign(std::pair(state.cage, entered.process), started);
    co_return started;
}

// ---- asking ----

std::shared_ptr<cage_record> cages::find(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<cage_record>> cages::known() const {
    std::vector<std::shared_ptr<cage_record>> list;
    list.reserve(by_name_.size());
    for (const auto& [name, record] : by_name_) list.push_back(record);
    return list;
}

task<std::vector<wire::cage_state>> cages::list() {
    auto [answer, fds] = co_await keeper_.ask<wire::cages>(wire::list{});
    co_return std::move(answer.list);
}

task<wire::cage_state> cages::state_of(std::string name) {
    for (wire::cage_state& each : co_await list()) {
        if (each.name == name) co_return std::move(each);
    }
    throw unknown_cage(fmt::format("there is no cage \"{}\"; 'pinfold ls' lists them", name));
}

task<> cages::remove(std::string name) {
    const std::shared_ptr<cage_record> own = find(name);
    if (!own || own->mode != run_mode::uncaged) {
        co_await state_of(name);
        co_await keeper_.ask<wire::ok>(wire::remove_cage{.name = name});
        co_return;
    }
    co_await own->first->kill();
    co_await own->first->ended.wait();
}

task<limits_spec> cages::change_limits(std::string name, std::function<void(limits_spec&)> change) {
    const std::shared_ptr<cage_record> own = find(name);
    if (own && own->mode == run_mode::uncaged)
        throw bad_request(fmt::format("\"{}\" is uncaged: it has no limits", name));
    const wire::cage_state state = co_await state_of(name);
    limits_spec limits = state.limits;
    change(limits);
    co_await keeper_.ask<wire::ok>(wire::set_limits{.cage = state.cage, .limits = limits});
    if (own) own->limits = limits;
    co_return limits;
}

task<std::vector<std::string>> cages::plan(run_request request) {
    if (request.name.empty()) request.name = make_up_name();
    if (request.mode == run_mode::uncaged)
        throw bad_request("mode: an uncaged program has no plan: it is started beside the machine's others");
    const cage_spec spec = make_spec(request, read_resolv_conf(settings_.resolv_conf));
    auto [answer, fds] = co_await keeper_.ask<wire::plan_text>(wire::plan_request{.spec = spec});
    co_return std::move(answer.steps);
}

// ---- what the keeper says unasked ----

// The end of a cage's first program is the end of all, and told once.
void cages::finish_all(std::uint64_t cage, const program_end& how) {
    const auto first = programs_.lower_bound(std::pair(cage, 0U));
    auto last = first;
    std::vector<std::pair<std::uint32_t, std::shared_ptr<program>>> gone;
    for (; last != programs_.end() && last->first.first == cage; ++last) {
        if (auto one = last->second.lock()) gone.emplace_back(last->first.second, std::move(one));
    }
    programs_.erase(first, last); // before anybody goes on: who ends may start the next
    for (const auto& [process, one] : gone) {
        one->finish(process == 0 || how.keeper_lost ? how : program_end{.status = 128 + SIGKILL});
    }
}

void cages::program_ended(const wire::ended& what) {
    program_end how{.status = what.status,
                    .memory_kill = what.memory_kill,
                    .memory_peak = what.memory_peak,
                    .memory_limit = what.memory_limit,
                    .memory_kills = what.memory_kills,
                    .memory_victim = what.memory_victim};
    if (what.process == 0) {
        const auto known = by_id_.find(what.cage);
        if (known != by_id_.end() && known->second->first->adopted && what.status == status_unknown)
            how = {.status = 125, .keeper_lost = true};
        return finish_all(what.cage, how);
    }
    const auto found = programs_.find(std::pair(what.cage, what.process));
    if (found == programs_.end()) return;
    const std::shared_ptr<program> one = found->second.lock();
    programs_.erase(found);
    if (one) one->finish(how);
}

void cages::denials_came(const wire::denials& what) {
    for (const pinfold_denial& each : what.list) {
        const auto name = names_.find(each.cage);
        const auto record = by_id_.find(each.cage);
        const bool scratch = record != by_id_.end() && record->second->scratch;
        denials_.add(each, name == names_.end() ? cage_id_text(each.cage) : name->second, "guards", scratch);
        if (record != by_id_.end()) ++record->second->denials;
    }
    denials_.set_lost(what.lost);
    denials_.poke();
}

void cages::relay_refused(const relay_refusal& what) {
    const auto name = names_.find(what.cage);
    denials_.add_of_relay(denial_of(what), name == names_.end() ? cage_id_text(what.cage) : name->second);
    if (const auto record = by_id_.find(what.cage); record != by_id_.end()) ++record->second->denials;
    denials_.poke();
}

void cages::keeper_lost() {
    verdict_.forget();
    for (const auto& [number, weak] : programs_) {
        if (const std::shared_ptr<program> one = weak.lock()) one->lose_keeper();
    }
    if (!by_id_.empty())
        spdlog::warn("without a keeper: {} running go on behind their guards, none can be made",
                     by_id_.size());
}

void cages::keeper_connected() {
    verdict_.connected();
    group_.spawn([](cages* self) -> task<> { co_await self->look_again(); }, this);
}

// It is served from here, and ends with this connection as if the keeper had never been another.
task<> cages::claim(std::shared_ptr<cage_record> record) {
    try {
        co_await keeper_.ask<wire::ok>(wire::claim{.cage = record->id});
        if (record->first->orphaned) record->first->find_keeper();
    } catch (const keeper_refused& error) {
        spdlog::warn("go on with cage \"{}\": {}", record->name, error.what());
    }
}

// After a keeper came back: what it does not know any more has ended while nobody looked.
task<> cages::look_again() {
    const auto before = by_id_;
    const std::vector<wire::cage_state> alive = co_await list();
    for (const wire::cage_state& each : alive) {
        remember_name(each.cage, each.name);
    }
    for (const auto& [id, record] : before) {
        const bool listed = std::ranges::any_of(
            alive, [&, number = id](const auto& each) { return each.cage == number; });
        if (listed)
            co_await claim(record);
        else
            finish_all(id, {.status = 125, .keeper_lost = true});
    }
}

} // namespace pinfold
