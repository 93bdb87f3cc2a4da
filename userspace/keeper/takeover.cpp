// What an earlier keeper left: whole cages are adopted, everything else of ours is removed, and both are said.

#include "base/error.hpp"
#include "keeper/keeper.hpp"

#include <algorithm>
#include <csignal>
#include <set>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

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

// Its agent may have lived on and will be back. One that died meanwhile never will, and its cage would stay for ever,
// without a network and without anybody to talk to.
void keeper::await_claims() {
    if (cages_.empty()) return;
    claim_timer_ = unique_fd(check(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
                                   "make a timer for adopted cages"));
    itimerspec when{};
    when.it_value.tv_sec = options_.claim_seconds;
    when.it_value.tv_nsec = options_.claim_seconds == 0 ? 1 : 0; // all zero would never come
    check(::timerfd_settime(claim_timer_.get(), 0, &when, nullptr), "set the timer for adopted cages");
    events_.watch(claim_timer_.get(), EPOLLIN, [this](std::uint32_t) { end_unclaimed(); });
}

std::vector<std::uint64_t> keeper::unclaimed() const {
    std::vector<std::uint64_t> orphans;
    for (const auto& [id, held] : cages_) {
        if (held.state.adopted && held.client_fd < 0) orphans.push_back(id);
    }
    return orphans;
}

void keeper::end_unclaimed() {
    events_.forget(claim_timer_.get());
    claim_timer_.reset();
    const std::vector<std::uint64_t> orphans = unclaimed();
    for (const std::uint64_t id : orphans) {
        spdlog::info("cage {} ends: no agent has come back for it within {} s", cage_name(id),
                     options_.claim_seconds);
        end(id, {.code = 128 + SIGKILL, .by_signal = true}, false);
    }
}

void keeper::claim(client& from, std::uint64_t id) {
    held_cage& held = owned(from, id);
    if (held.state.owner != from.who().uid)
        fail("cage {} is another user's: its own agent serves it", held.state.name);
    if (held.client_fd >= 0 && held.client_fd != from.fd())
        fail("cage {} is served by another agent", held.state.name);
    if (held.state.state != "running") fail("cage {} does not run any more", held.state.name);
    held.client_fd = from.fd();
    if (!claim_timer_ || !unclaimed().empty()) return;
    events_.forget(claim_timer_.get());
    claim_timer_.reset();
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
