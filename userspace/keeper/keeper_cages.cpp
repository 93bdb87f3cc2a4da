// What the keeper does with cages when an agent asks, and when one ends.

#include "base/error.hpp"
#include "keeper/keeper.hpp"
#include "spec/validate.hpp"

#include <algorithm>
#include <csignal>
#include <ctime>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/random.h>

namespace pinfold {

namespace {

// Random, so that an id is never used twice, also not by two keepers one after the other.
std::uint64_t new_id() {
    std::uint64_t id = 0;
    while (id == 0) {
        if (::getrandom(&id, sizeof id, 0) != static_cast<ssize_t>(sizeof id))
            fail_errno(errno, "choose the id of a cage");
    }
    return id;
}

void need_valid(const cage_spec& spec) {
    if (const auto problem = find_problem(spec))
        fail("cage {}: {} {}", spec.name, problem->where, problem->what);
}

void need_limits(const machine_facts& facts) {
    const std::vector<std::string> missing = missing_controllers(facts);
    if (missing.empty()) return;
    std::string names;
    for (const std::string& name : missing) names += (names.empty() ? "" : ", ") + name;
    fail("cage refused: this machine's cgroup v2 has no controller for {}, so its limits could not be "
         "enforced; "
         "boot with cgroup v2 alone, or accept it in keeper.conf: accept-unlimited = {}",
         names, names);
}

// A lower memory.max is reached by killing, and not only what is too large: on 6.1 the whole cage was seen to follow. So what
// can be given up is, and below what programs hold the limit does not go.
void make_room(const cgroup& group, const std::string& name, std::uint64_t limit) {
    const auto current = [&group] { return group.read_number("memory.current").value_or(0); };
    if (const std::uint64_t now = current(); now > limit) {
        try {
            group.write("memory.reclaim", fmt::format("{}", now - limit));
        } catch (const std::system_error& error) { // not all of it could be: that is asked next
            spdlog::debug("cage {}: {}", name, error.what());
        }
    }
    if (const std::uint64_t now = current(); now > limit)
        fail(
            "limit the memory of cage {} to {} bytes: its programs hold {}; end some of them, or choose more",
            name, limit, now);
}

std::vector<std::string> notes_for(const machine_facts& facts) {
    std::vector<std::string> notes;
    for (const std::string& name : unenforced_limits(facts))
        notes.push_back(fmt::format("limits: not enforced: {}", name));
    return notes;
}

plan_inputs inputs_for(std::uint64_t id, std::uint32_t base, const image& from) {
    plan_inputs inputs{.cgroup_name = cage_name(id), .id_base = base};
    for (const image_layer& layer : from.layers) inputs.layers.push_back({layer.lower, layer.target});
    return inputs;
}

// Gives the range back unless the cage took it over.
class taken_range {
public:
    taken_range(id_pool& pool, std::uint32_t base) : pool_(&pool), base_(base) {}
    taken_range(const taken_range&) = delete;
    taken_range& operator=(const taken_range&) = delete;
    ~taken_range() {
        if (pool_ != nullptr) pool_->give_back(base_);
    }
    [[nodiscard]] std::uint32_t base() const noexcept { return base_; }
    void keep() noexcept { pool_ = nullptr; }

private:
    id_pool* pool_;
    std::uint32_t base_;
};

wire::message made_message(held_cage& held) {
    wire::made body{.cage = held.built->id(),
                    .terminal = static_cast<bool>(held.built->streams().terminal),
                    .notes = held.state.notes};
    wire::message message{.body = std::move(body)};
    message.fds.push_back(std::move(held.built->network().tun));
    message.fds.push_back(std::move(held.built->network().listener));
    standard_streams& streams = held.built->streams();
    for (unique_fd* end : {&streams.input, &streams.output, &streams.errors, &streams.terminal}) {
        if (*end) message.fds.push_back(std::move(*end));
    }
    return message;
}

} // namespace

wire::plan_text keeper::plan_for(const client& from, const cage_spec& spec) {
    need_valid(spec);
    need_limits(facts_);
    if (!spec.project.empty())
        check_project(from.who(), spec.project, open_as(from.who(), spec.project).get(), spec.mode);
    const image source = images_.get(spec.image);
    wire::plan_text text;
    for (const step& each : plan(
             spec, facts_, inputs_for(0, options_.first_id != 0 ? options_.first_id : first_pool_id, source)))
        text.steps.push_back(pinfold::describe(each));
    return text;
}

cage_order keeper::order_for(const client& from, const cage_spec& spec, const image& source,
                             std::uint32_t base) {
    cage_order order{.id = new_id(),
                     .spec = spec,
                     .owner = from.who().identity(),
                     .id_base = base,
                     .throwaway_bytes = spec.limits.memory_bytes};
    order.steps = plan(spec, facts_, inputs_for(order.id, base, source));
    for (const step& each : order.steps) {
        const auto* bind = std::get_if<bind_path>(&each);
        if (bind == nullptr) continue;
        order.sources.push_back(open_as(from.who(), bind->source));
        if (bind->source == spec.project.native())
            check_project(from.who(), spec.project, order.sources.back().get(), spec.mode);
    }
    return order;
}

wire::message keeper::make(client& from, const cage_spec& spec) {
    return build(from, spec, -1);
}

wire::message keeper::probe(client& from, cage_mode mode) {
    cage_spec spec{.name = fmt::format("doctor-{:08x}", static_cast<std::uint32_t>(new_id())), .mode = mode};
    spec.command = {
        .argv = {"pinfold-probe", "doctor"}, .environment = {"PATH=/usr/bin:/bin"}, .directory = "/"};
    return build(from, spec, probe_program_.get());
}

wire::message keeper::build(client& from, const cage_spec& spec, int program_fd) {
    need_valid(spec);
    need_limits(facts_);
    need_machine(spec);
    if (find(from.who().uid, spec.name) != nullptr)
        fail("a cage named {} is already running: choose another --name, or end it with 'pinfold rm {}'",
             spec.name, spec.name);
    const auto theirs = std::ranges::count_if(
        cages_, [&](const auto& each) { return each.second.state.owner == from.who().uid; });
    if (theirs >= static_cast<std::ptrdiff_t>(options_.most_cages))
        fail("uid {} has {} cages running, the most that most-cages in keeper.conf allows", from.who().uid,
             theirs);

    const image source = images_.get(spec.image);
    const auto kept = spec.keep_files ? kept_.find(from.who().uid, spec.name) : std::nullopt;
    taken_range range(ids_, kept ? kept->id_base : ids_.take());
    if (kept) range.keep(); // it stays with the files
    cage_order order = order_for(from, spec, source, range.base());
    order.program_fd = program_fd;
    const std::uint64_t id = order.id;

    held_cage held{.client_fd = from.fd(), .temporary = !spec.keep_files};
    held.state = {.cage = id,
                  .name = spec.name,
                  .owner = from.who().uid,
                  .mode = spec.mode,
                  .state = "building",
                  .project = spec.project,
                  .image = spec.image,
                  .limits = spec.limits,
                  .id_base = range.base(),
                  .started_unix = static_cast<std::uint64_t>(::time(nullptr)),
                  .notes = notes_for(facts_)};
    records_.write(cage_name(id),
                   held.state); // before the first step: what a killed keeper leaves has a name
    try {
        if (spec.keep_files) order.kept = kept_.make(held.state);
        held.built = cage::build(tools_, std::move(order));
    } catch (...) {
        records_.remove(cage_name(id));
        if (spec.keep_files && !kept) (void)kept_.remove(from.who().uid, spec.name);
        throw;
    }
    range.keep();
    held.state.first_pid = static_cast<std::uint32_t>(held.built->init().pid());
    held_cage& placed = cages_[id] = std::move(held);
    watch(placed);
    return made_message(placed);
}

void keeper::watch(held_cage& what) {
    const std::uint64_t id = what.state.cage;
    events_.watch(what.built->init().pidfd(), EPOLLIN, [this, id](std::uint32_t) { cage_ended(id); });
}

void keeper::start(client& from, std::uint64_t id) {
    held_cage& held = owned(from, id);
    if (held.client_fd != from.fd() || held.state.state != "building")
        fail("cage {} is not waiting to be started", cage_name(id));
    try {
        held.built->start();
        held.state.state = "running";
        records_.write(cage_name(id),
                       held.state); // without it the next keeper would take the cage for a half-made one
    } catch (...) {
        forget(id);
        throw;
    }
}

wire::message keeper::enter(client& from, std::uint64_t id, const command_spec& command) {
    held_cage& held = owned(from, id);
    if (const auto problem = find_problem(command)) fail("{} {}", problem->where, problem->what);
    if (held.state.state != "running") fail("cage {} is not running yet", held.state.name);
    caged_program program = held.built->enter(command);
    const std::uint32_t number = held.next_process++;
    wire::message message{
        .body = wire::entered{.process = number, .terminal = static_cast<bool>(program.streams.terminal)}};
    standard_streams& streams = program.streams;
    for (unique_fd* end : {&streams.input, &streams.output, &streams.errors, &streams.terminal}) {
        if (*end) message.fds.push_back(std::move(*end));
    }
    events_.watch(program.held.pidfd(), EPOLLIN,
                  [this, id, number](std::uint32_t) { program_ended(id, number); });
    held.entered.emplace(number, entered_program{std::move(program), from.fd()});
    return message;
}

void keeper::signal(client& from, std::uint64_t id, std::uint32_t process, std::uint32_t number) {
    held_cage& held = owned(from, id);
    if (number == 0 || number > static_cast<std::uint32_t>(SIGRTMAX)) fail("{} is no signal", number);
    if (process == 0) {
        const pinfold::process& first = held.built->program() ? held.built->program() : held.built->init();
        (void)first.signal(static_cast<int>(number));
        return;
    }
    const auto found = held.entered.find(process);
    if (found != held.entered.end()) (void)found->second.program.held.signal(static_cast<int>(number));
}

void keeper::set_limits(client& from, std::uint64_t id, const limits_spec& limits) {
    held_cage& held = owned(from, id);
    if (const auto problem = find_problem(limits)) fail("{} {}", problem->where, problem->what);
    if (facts_.memory_controller) make_room(held.built->group(), held.state.name, limits.memory_bytes);
    for (const set_limit& each : plan_limits(limits, facts_))
        held.built->group().write(each.file.c_str(), each.value);
    held.state.limits = limits;
    records_.write(cage_name(id), held.state);
}

wire::cage_state keeper::describe(const held_cage& what) const {
    wire::cage_state state = what.state;
    const cgroup& group = what.built->group();
    state.memory_bytes = group.read_number("memory.current").value_or(0);
    const std::string pids = group.read("cgroup.procs");
    state.processes = static_cast<std::uint32_t>(std::ranges::count(pids, '\n'));
    return state;
}

wire::cages keeper::list(const client& from) {
    wire::cages answer;
    const auto theirs = [&](const wire::cage_state& state) {
        return from.who().uid == 0 || state.owner == from.who().uid;
    };
    for (const auto& [id, held] : cages_) {
        if (theirs(held.state)) answer.list.push_back(describe(held));
    }
    for (wire::cage_state& state : kept_.all()) {
        if (!theirs(state) || find(state.owner, state.name) != nullptr) continue;
        state.state = "kept";
        state.first_pid = 0;
        answer.list.push_back(std::move(state));
    }
    return answer;
}

void keeper::remove(client& from, const std::string& name) {
    held_cage* running = find(from.who().uid, name);
    const auto kept = kept_.find(from.who().uid, name);
    if (running == nullptr && !kept)
        fail("there is no cage named {}: 'pinfold ls' lists those there are", name);
    if (running != nullptr) end(running->state.cage, {.code = 128 + SIGKILL, .by_signal = true}, false);
    if (kept) {
        if (!kept_.remove(from.who().uid, name))
            fail("some files of cage {} could not be removed from the state directory", name);
        ids_.give_back(kept->id_base);
    }
}

held_cage& keeper::owned(const client& from, std::uint64_t id) {
    const auto found = cages_.find(id);
    // Another owner's cage and no cage are one answer: ids are not for guessing.
    if (found == cages_.end() || (from.who().uid != 0 && found->second.state.owner != from.who().uid))
        fail("there is no running cage {}", cage_name(id));
    return found->second;
}

held_cage* keeper::find(std::uint32_t uid, const std::string& name) {
    for (auto& [id, held] : cages_) {
        if (held.state.owner == uid && held.state.name == name) return &held;
    }
    return nullptr;
}

void keeper::program_ended(std::uint64_t id, std::uint32_t number) {
    held_cage& held = cages_.at(id);
    const auto found = held.entered.find(number);
    process& program = found->second.program.held;
    events_.forget(program.pidfd());
    const auto status = program.try_reap();
    wire::ended message{.cage = id, .process = number, .status = status ? status->code : 255};
    tell_memory(held, message);
    const int asker = found->second.client_fd;
    held.entered.erase(found);
    send_to(asker, {.body = message});
}

void keeper::cage_ended(std::uint64_t id) {
    held_cage& held = cages_.at(id);
    events_.forget(held.built->init().pidfd());
    const exit_status status = held.built->init().try_reap().value_or(exit_status{.code = 255});
    end(id, status, true);
}

// What its memory limit did to the cage since it was last told; `into` has the status already.
void keeper::tell_memory(held_cage& what, wire::ended& into) {
    const cgroup& group = what.built->group();
    const std::uint64_t kills = group.read_key("memory.events", "oom_kill").value_or(0);
    into.memory_limit = what.state.limits.memory_bytes;
    into.memory_peak = group.read_number("memory.peak").value_or(0);
    into.memory_kills = static_cast<std::uint32_t>(kills - what.memory_kills);
    into.memory_kill = into.memory_kills > 0 && into.status == 128 + SIGKILL;
    if (into.memory_kills == 0) return;
    what.memory_kills = kills;
    into.memory_victim = kill_log_.take(cage_name(what.state.cage));
    spdlog::info("cage {}: {} killed at its memory limit of {} bytes (peak {})", what.state.name,
                 into.memory_victim.empty() ? "a process" : into.memory_victim, into.memory_limit,
                 into.memory_peak);
}

// `by_kernel`: nobody asked for it, so a kill may be the memory limit's.
void keeper::end(std::uint64_t id, exit_status status, bool by_kernel) {
    pass_denials(); // what it did at last belongs before the news of its end
    const int maker = cages_.at(id).client_fd;
    const std::uint32_t owner = cages_.at(id).state.owner;
    wire::ended message{.cage = id, .process = 0, .status = status.code};
    tell_memory(cages_.at(id), message);
    message.memory_kill = message.memory_kill && by_kernel;
    forget(id);
    tell_end(maker, owner, message);
}

void keeper::tell_end(int maker, std::uint32_t owner, const wire::ended& end) {
    if (maker >= 0) return send_to(maker, {.body = end});
    for (const auto& [fd, agent] : clients_) { // adopted: whoever made it was another keeper's connection
        if (agent->who().uid == owner) send_to(fd, {.body = end});
    }
}

// The cage is gone, or is kept on the list, guarded, because something in it does not end.
void keeper::forget(std::uint64_t id) {
    held_cage& held = cages_.at(id);
    if (held.built->init()) events_.forget(held.built->init().pidfd());
    for (const auto& [number, each] : held.entered) events_.forget(each.program.held.pidfd());
    held.entered.clear();
    bool gone = false;
    try {
        gone = held.built->destroy();
    } catch (const std::exception& error) {
        spdlog::error("end cage {}: {}", cage_name(id), error.what());
    }
    if (!gone) {
        held.state.state = "ending";
        held.client_fd = -1;
        return;
    }
    if (held.temporary) ids_.give_back(held.state.id_base);
    records_.remove(cage_name(id));
    cages_.erase(id);
}

} // namespace pinfold
