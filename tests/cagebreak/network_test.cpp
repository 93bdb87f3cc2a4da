// boundary.md, "Network": what a cage may send where. Each refusal is zero bytes at the target, beside an act that did
// arrive and a mutation that makes it arrive.

#include "cagebreak/cage_machine.hpp"
#include "support/catch.hpp"

#include <pinfold/denial.h>

namespace pinfold::test {
namespace {

// A forbidden target of the world, by every form of its address, and where it counts.
struct target {
    const char* name;
    const char* address; // as the probe is told
    const char* space;
    const char* counted; // as the world counts it
};

constexpr target locals[] = {
    {"a LAN neighbour", "192.168.1.10", "lan", "192.168.1.10"},
    {"the router", "192.168.1.1", "lan", "192.168.1.1"},
    {"a LAN neighbour in IPv6 clothes", "::ffff:192.168.1.10", "lan", "192.168.1.10"},
    {"a LAN neighbour by its unique local address", "fdaa:bbbb:cccc:1::10", "lan", "fdaa:bbbb:cccc:1::10"},
    {"a LAN neighbour by its global IPv6 address", "2a01:4f8:77:1::10", "lan", "2a01:4f8:77:1::10"},
    {"a LAN neighbour by its public-looking IPv4 address", "81.2.69.10", "lan", "81.2.69.10"},
    {"a mesh peer", "100.64.0.2", "mesh", "100.64.0.2"},
    {"a mesh peer over IPv6", "fd5e:ca9e:7::2", "mesh", "fd5e:ca9e:7::2"},
    {"the machine's LAN address", "192.168.1.2", "machine", "192.168.1.2"},
    {"the machine's public-looking address", "81.2.69.2", "machine", "81.2.69.2"},
    {"the machine's global IPv6 address", "2a01:4f8:77:1::2", "machine", "2a01:4f8:77:1::2"},
};

constexpr const char* acts[] = {"connect-tcp", "connect-udp", "send-udp"};

std::vector<std::string> probe_of(const char* act, const char* address, const char* port = "9000") {
    return {act, address, port, "ping!"};
}

TEST_CASE("a sealed cage sends nothing to anything local, by any form of its address") {
    cage_machine& machine = cage_machine::here();
    for (const target& each : locals) {
        for (const char* act : acts) {
            CAPTURE(each.name, act);
            const cage_kind guarded = sealed().with_open_relay(); // the guard alone
            machine.net().reset();
            const probed refused = machine.probe(guarded, probe_of(act, each.address));
            CHECK(refused.status == 1);
            CHECK(refused.says("EACCES"));
            CHECK(machine.net().count(each.space, "", each.counted, 9000) == nothing);
            REQUIRE(refused.denials.size() >= 1);
            CHECK(refused.denials[0].port == 9000);

            const probed arrived = machine.probe(guarded.without(guard::destinations),
                                                 probe_of(act, each.address)); // the mutation
            CAPTURE(arrived.output, arrived.errors);
            CHECK(machine.net().count(each.space, "", each.counted, 9000).packets > 0);
        }
    }
}

TEST_CASE("the relay refuses by itself what is local to a sealed cage") {
    cage_machine& machine = cage_machine::here();
    for (const target& each : locals) {
        for (const char* act : acts) {
            CAPTURE(each.name, act);
            machine.net().reset();
            (void)machine.probe(sealed().without(guard::destinations), probe_of(act, each.address));
            CHECK(machine.net().count(each.space, "", each.counted, 9000) == nothing);
        }
    }
}

TEST_CASE("both kinds of cage reach the internet over TCP and UDP, IPv4 and IPv6") {
    cage_machine& machine = cage_machine::here();
    for (const cage_kind& kind : {sealed(), caged()}) {
        for (const char* address : {"93.184.216.34", "2606:2800:220:1::34", "::ffff:93.184.216.34"}) {
            for (const char* act : acts) {
                CAPTURE(address, act);
                const probed reached = machine.probe(kind, probe_of(act, address));
                CAPTURE(reached.output, reached.errors);
                CHECK(reached.status == 0);
                CHECK(reached.denials.empty());
            }
        }
    }
}

TEST_CASE("a caged cage reaches the LAN and the mesh, and no agent's port anywhere") {
    cage_machine& machine = cage_machine::here();
    for (const target& each : locals) {
        CAPTURE(each.name);
        machine.net().reset();
        CHECK(machine.probe(caged(), probe_of("connect-tcp", each.address)).status == 0);
        CHECK(machine.net().count(each.space, "tcp", each.counted, 9000).bytes > 0);
        const probed refused = machine.probe(caged().with_open_relay(),
                                             probe_of("connect-tcp", each.address, "7387"));
        CHECK(refused.says("EACCES"));
        CHECK(machine.net().count(each.space, "tcp", each.counted, 7387) == nothing);
        REQUIRE_FALSE(refused.denials.empty());
        CHECK(refused.denials[0].rule == PINFOLD_RULE_AGENT_PORT);
        (void)machine.probe(caged().with_open_relay().without(guard::destinations),
                            probe_of("connect-tcp", each.address, "7387"));
        CHECK(machine.net().count(each.space, "tcp", each.counted, 7387).syns > 0);
    }
}

} // namespace
} // namespace pinfold::test
