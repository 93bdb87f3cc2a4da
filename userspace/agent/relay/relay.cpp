#include "agent/relay/relay.hpp"

#include "agent/relay/core.hpp"
#include "agent/relay/route_news.hpp"
#include "agent/relay/served_cage.hpp"
#include "base/error.hpp"
#include "spec/cage_spec.hpp"

#include <map>
#include <memory>
#include <vector>

namespace pinfold {

// Cages that have come to rest are freed between two batches: their last completion is still on the stack before.
struct relay::parts final : deferred {
    parts(uring& ring, destination_check check, relay_limits limits)
        : core(ring, std::move(check), limits), news(ring, [this] { judge_again(); }) {}
    parts(const parts&) = delete;
    parts& operator=(const parts&) = delete;
    ~parts() { core.ring.forget(*this); }

    void run() noexcept override { at_rest.clear(); }

    void put_to_rest(const served_cage& which) {
        const auto found = std::ranges::find(ending, &which, &std::unique_ptr<served_cage>::get);
        at_rest.push_back(std::move(*found));
        ending.erase(found);
        core.ring.defer(*this);
    }

    // The kernel takes an open socket along to a new route, so a verdict holds only as long as the routes do.
    void judge_again() {
        for (const auto& [id, cage] : served) cage->judge_again();
    }

    relay_core core;
    route_news news;
    std::map<std::uint64_t, std::unique_ptr<served_cage>> served;
    std::vector<std::unique_ptr<served_cage>> ending;
    std::vector<std::unique_ptr<served_cage>> at_rest;
};

relay::relay(uring& ring, destination_check check, relay_limits limits)
    : parts_(std::make_unique<parts>(ring, std::move(check), limits)) {}

relay::~relay() {
    while (!parts_->served.empty()) remove(parts_->served.begin()->first);
    parts_->core.timers.stop();
    parts_->news.stop();
    // No fd is closed and no memory freed while the kernel still works on it.
    while (!parts_->ending.empty() || !parts_->core.timers.ended() || !parts_->news.ended())
        parts_->core.ring.run_once(true);
}

void relay::add(relay_cage cage) {
    const std::uint64_t id = cage.id;
    if (parts_->served.contains(id))
        fail("serve cage {}: the relay serves a cage of this number already", id);
    if (!cage.tun || !cage.listener) fail("serve cage {}: its tun or its listener is missing", id);
    auto made = std::make_unique<served_cage>(
        parts_->core, std::move(cage), [all = parts_.get()](served_cage& which) { all->put_to_rest(which); });
    parts_->served.emplace(id, std::move(made));
}

void relay::remove(std::uint64_t cage) {
    const auto found = parts_->served.find(cage);
    if (found == parts_->served.end()) return;
    served_cage& which = *parts_->ending.emplace_back(std::move(found->second));
    parts_->served.erase(found);
    which.end();
}

relay_figures relay::figures(std::uint64_t cage) const {
    const auto found = parts_->served.find(cage);
    return found == parts_->served.end() ? relay_figures{} : found->second->figures();
}

void relay::tell_refusals(refusal_listener to) {
    parts_->core.refusals = std::move(to);
}

bool relay::serves(std::uint64_t cage) const {
    return parts_->served.contains(cage);
}

bool relay::answers_at_gateway(std::uint64_t cage, int protocol, std::uint16_t port) const {
    const auto found = parts_->served.find(cage);
    return found != parts_->served.end() && found->second->answers_at_gateway(protocol, port);
}

void relay::offer(gateway_service service) {
    parts_->core.services[service.port] = std::move(service);
}

} // namespace pinfold
