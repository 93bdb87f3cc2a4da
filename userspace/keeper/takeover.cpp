// What an earlier keeper left: whole cages are adopted, everything else of ours is removed, and both are said.

#include "base/error.hpp"
#include "keeper/keeper.hpp"

#include <csignal>
#include <set>
#include <spdlog/spdlog.h>

namespace pinfold {

using namespace std::chrono_literals;

void keeper::take_over() {
    for (const wire::cage_state& state : kept_.all()) ids_.reserve(state.id_base);
    std::set<std::uint64_t> found; // by a record, a cgroup or a pin: each of them alone is a leftover
    for (const std::string& name : records_.names()) {
        if (const auto id = parse_cage_name(name)) found.insert(*id);
    }
    for (const std::string& name : cgroups_.children()) {
        if (const auto id = parse_cage_name(name)) found.insert(*id);
    }
    for (const std::uint64_t id : guards_.pinned()) found.insert(id);

    for (const std::uint64_t id : found) {
        const auto state = records_.read(cage_name(id));
        try {
            if (state && state->state == "running") {
                adopt(*state);
                continue;
            }
            spdlog::warn("cage {} was not finished when the keeper ended: it is removed", cage_name(id));
        } catch (const std::exception& error) {
            spdlog::warn("cage {} is removed: {}", cage_name(id), error.what());
        }
        sweep(id);
    }
}

void keeper::adopt(const wire::cage_state& state) {
    cage_spec spec{.name = state.name,
                   .mode = state.mode,
                   .project = state.project,
                   .image = state.image,
                   .limits = state.limits};
    const bool kept = kept_.find(state.owner, state.name).has_value();
    const std::vector<step> steps = plan(spec, facts_,
                                         {.cgroup_name = cage_name(state.cage), .id_base = state.id_base});
    held_cage held{.built = cage::adopt(tools_, state.cage, spec, steps, state.id_base),
                   .state = state,
                   .temporary = !kept};
    if (!kept) ids_.reserve(state.id_base);
    held.state.adopted = true;
    spdlog::info("cage {} ({}) of uid {} goes on: adopted", state.name, cage_name(state.cage), state.owner);
    watch(cages_[state.cage] = std::move(held));
}

// The process is gone before its guard: a cgroup that does not empty keeps its pins and is tried again at the next start.
void keeper::sweep(std::uint64_t id) {
    try {
        if (cgroup::exists(cgroups_.fd(), cage_name(id))) {
            cgroup group = cgroup::open(cgroups_.fd(), cage_name(id));
            if (!group.kill(10s)) {
                spdlog::error("cage {}: a process does not end; its guards stay", cage_name(id));
                return;
            }
            guards_.detach(id);
            (void)group.remove();
        } else {
            guards_.detach(id);
        }
        steering_.release(id);
        records_.remove(cage_name(id));
    } catch (const std::exception& error) {
        spdlog::error("remove what is left of cage {}: {}", cage_name(id), error.what());
    }
}

} // namespace pinfold
