// How one refusal is proven: nothing arrived where the act was aimed, a wall alone was enough, and without it the same act
// does arrive.
#pragma once

#include "cagebreak/cage_machine.hpp"
#include "support/catch.hpp"

#include <pinfold/denial.h>

namespace pinfold::test {

// Where an act is aimed, as the world counts it; port 0 = any.
struct aim {
    const char* space;
    const char* address;
    std::uint16_t port = 9000;
};

inline arrived arrived_at(const aim& at) {
    return cage_machine::here().net().count(at.space, "", at.address, at.port);
}

// The guard alone, with a relay that allows everything: EACCES, a denial, and no packet.
inline probed guard_refuses(const cage_kind& kind, const std::vector<std::string>& act, const aim& at) {
    cage_machine& machine = cage_machine::here();
    machine.net().reset();
    probed refused = machine.probe(kind.with_open_relay(), act);
    CAPTURE(at.address, refused.output, refused.errors);
    CHECK(refused.status == 1);
    CHECK(refused.says("EACCES"));
    CHECK(arrived_at(at) == nothing);
    CHECK(refused.denials.size() >= 1);
    return refused;
}

// The mutation: neither this guard nor the relay, and the act arrives.
inline void arrives_without(guard missing, const cage_kind& kind, const std::vector<std::string>& act,
                            const aim& at) {
    cage_machine& machine = cage_machine::here();
    machine.net().reset();
    const probed reached = machine.probe(kind.with_open_relay().without(missing), act);
    CAPTURE(at.address, reached.output, reached.errors);
    CHECK(arrived_at(at).packets > 0);
}

// The relay alone: no packet, whatever the act saw.
inline probed relay_refuses(const cage_kind& kind, const std::vector<std::string>& act, const aim& at) {
    cage_machine& machine = cage_machine::here();
    machine.net().reset();
    probed refused = machine.probe(kind.without(guard::destinations), act);
    CAPTURE(at.address, refused.output, refused.errors);
    CHECK(arrived_at(at) == nothing);
    return refused;
}

// All three: each wall by itself, and neither.
inline probed both_walls_refuse(const cage_kind& kind, const std::vector<std::string>& act, const aim& at) {
    (void)relay_refuses(kind, act, at);
    arrives_without(guard::destinations, kind, act, at);
    return guard_refuses(kind, act, at);
}

// The positive twin, by the product as it is.
inline probed succeeds(const cage_kind& kind, const std::vector<std::string>& act) {
    probed reached = cage_machine::here().probe(kind, act);
    CAPTURE(reached.output, reached.errors);
    CHECK(reached.status == 0);
    CHECK(reached.denials.empty());
    return reached;
}

// A program of the image: python3, for what the probe has no act for. Prints what it found.
inline std::vector<std::string> python(const std::string& code) {
    return {"python3", "-I", "-c", code};
}

} // namespace pinfold::test
