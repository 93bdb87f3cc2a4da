// Datagrams: by every call that sends one, with more than one destination, to groups and to everybody, and pings.
#include "cagebreak/refusal.hpp"

#include <arpa/inet.h>
#include <cstring>
#include <sys/socket.h>

namespace pinfold::test {
namespace {

using act = std::vector<std::string>;

constexpr aim target{"lan", "192.168.1.10"};
constexpr aim target6{"lan", "2a01:4f8:77:1::10"};
constexpr const char* public4 = "93.184.216.34";
constexpr const char* public6 = "2606:2800:220:1::34";

std::string address_of(const pinfold_denial& denial) {
    char text[INET6_ADDRSTRLEN] = {};
    ::inet_ntop(static_cast<int>(denial.family), denial.address, text, sizeof text);
    return text;
}

// One datagram to `to` by each call; `first` is where a socket was connected before.
std::vector<act> ways_to(const std::string& to, const std::string& first) {
    return {
        {"send-udp", to, "9000"},
        {"sendmsg-udp", to, "9000"},
        {"connect-udp", to, "9000"},
        {"sendmmsg", to, "9000"},
        {"connected-sendto", first, "9001", to, "9000"},
        {"unspec-reconnect", first, "9001", to, "9000"},
        {"sendto-at-4gib", to, "9000"},
    };
}

std::vector<act> ways4_to(const std::string& to, const std::string& first) {
    std::vector<act> all = ways_to(to, first);
    all.push_back({"unspec-sendto", to, "9000"});
    all.push_back({"v6socket-v4addr", to, "9000"});
    all.push_back({"broadcast", to, "9000"});
    return all;
}

TEST_CASE("B15 B01 no call that sends a datagram takes it to a local address") {
    for (const act& each : ways4_to(target.address, public4)) {
        CAPTURE(each[0]);
        const probed refused = both_walls_refuse(sealed(), each, target);
        REQUIRE_FALSE(refused.denials.empty());
        CHECK(refused.denials[0].rule == PINFOLD_RULE_PRIVATE);
        CHECK(address_of(refused.denials[0]) == target.address);
    }
    for (const act& each : ways_to(target6.address, public6)) {
        CAPTURE(each[0]);
        const probed refused = both_walls_refuse(sealed(), each, target6);
        REQUIRE_FALSE(refused.denials.empty());
        CHECK(refused.denials[0].rule == PINFOLD_RULE_ROUTE);
    }
    for (const act& each : ways4_to(public4, public4)) (void)succeeds(sealed(), each); // the twins
    for (const act& each : ways_to(public6, public6)) (void)succeeds(sealed(), each);
}

TEST_CASE("B01 an IPv4 address in IPv6 clothes is refused, and recorded, as the IPv4 address it is") {
    for (const char* spelling : {"::ffff:192.168.1.10", "::ffff:c0a8:10a"}) {
        std::vector<act> all = ways_to(spelling, "::ffff:93.184.216.34");
        all.push_back({"connect-tcp", spelling, "9000"});
        for (const act& each : all) {
            CAPTURE(each[0], spelling);
            const probed refused = both_walls_refuse(sealed(), each, target);
            REQUIRE_FALSE(refused.denials.empty());
            CHECK(refused.denials[0].rule == PINFOLD_RULE_PRIVATE);
            CHECK(refused.denials[0].family == AF_INET);
            CHECK(address_of(refused.denials[0]) == target.address);
        }
    }
    for (const char* spelling : {"::ffff:93.184.216.34", "::ffff:5db8:d822"})
        for (const act& each : ways_to(spelling, "::ffff:1.1.1.1")) (void)succeeds(sealed(), each);
}

TEST_CASE("B15 of several datagrams in one call those before the refused one leave, and no other") {
    cage_machine& machine = cage_machine::here();
    const act mixed{"sendmmsg", public4, "9000", target.address, "9000", public4, "9000"};
    const probed refused = guard_refuses(sealed(), mixed, target);
    CHECK(refused.says("sent=1"));
    CHECK(machine.net().count("internet", "udp", public4, 9000).packets == 1);
    arrives_without(guard::destinations, sealed(), mixed, target);
    (void)relay_refuses(sealed(), mixed, target);

    machine.net().reset();
    const probed sent = succeeds(sealed(), {"sendmmsg", public4, "9000", public4, "9000", public4, "9000"});
    CHECK(sent.says("sent=3"));
    CHECK(machine.net().count("internet", "udp", public4, 9000).packets == 3);
}

TEST_CASE("B15 multicast and broadcast leave no cage") {
    struct group {
        const char* act;
        const char* address;
        bool
            arrives; // with every wall gone; the relay's socket has no interface for the others, and may not broadcast
    };
    constexpr group groups[] = {
        {"multicast", "224.0.0.251", true},      {"multicast", "239.255.255.250", true},
        {"multicast", "ff02::fb", false},        {"multicast", "ff02::fb%eth0", false},
        {"multicast", "ff0e::fb", true},         {"multicast", "::ffff:224.0.0.251", true},
        {"broadcast", "255.255.255.255", false}, {"connect-udp", "224.0.0.251", true},
    };
    cage_machine& machine = cage_machine::here();
    for (const group& each : groups) {
        CAPTURE(each.act, each.address);
        const std::string shown = std::string(each.address).starts_with("::ffff:") ? "224.0.0.251"
                                                                                   : each.address;
        const std::string counted = shown.substr(0, shown.find('%'));
        const aim at{"lan", counted.c_str(), 5353};
        const act sending{each.act, each.address, "5353"};
        for (const cage_kind& kind : {sealed(), caged()}) {
            const probed refused = guard_refuses(kind, sending, at);
            REQUIRE_FALSE(refused.denials.empty());
            CHECK(refused.denials[0].rule == PINFOLD_RULE_MULTICAST);
            (void)relay_refuses(kind, sending, at);
        }
        if (each.arrives) arrives_without(guard::destinations, sealed(), sending, at);
        machine.net().reset();
        CHECK(machine.bare(sending).status == 0); // the act is sound: with no cage it arrives
        CHECK(arrived_at(at).packets > 0);
    }
}

TEST_CASE("B15 a subnet's broadcast is refused to a sealed cage, by every prefix that is on the LAN") {
    cage_machine& machine = cage_machine::here();
    for (const char* address : {"192.168.1.255", "81.2.69.255"}) {
        CAPTURE(address);
        const aim at{"lan", address};
        const act sending{"broadcast", address, "9000"};
        (void)guard_refuses(sealed(), sending, at);
        (void)relay_refuses(sealed(), sending, at);
        (void)machine.probe(sealed().without(guard::destinations).with_open_relay(), sending);
        CHECK(arrived_at(at) == nothing); // the relay's sockets may not broadcast either
        machine.net().reset();
        CHECK(machine.bare(sending).status == 0);
        CHECK(arrived_at(at).packets > 0);
    }
}

// A ping socket's sendto() meets no hook on any kernel: the relay is the only wall there, and so the mutation is an open one.
TEST_CASE("a sealed cage pings the internet, and nothing local") {
    cage_machine& machine = cage_machine::here();
    for (const aim& at : {target, aim{"lan", "81.2.69.10"}, target6, aim{"mesh", "100.64.0.2"},
                          aim{"machine", "192.168.1.2"}}) {
        for (const char* name : {"ping", "ping-connect"}) {
            CAPTURE(at.address, name);
            const act pinging{name, at.address};
            machine.net().reset();
            CHECK(machine.probe(sealed(), pinging).status == 1);
            CHECK(machine.net().count(at.space, "icmp", at.address) == nothing);
            const cage_kind open = sealed().without(guard::destinations).with_open_relay();
            CHECK(machine.probe(open, pinging).status == 0);
            CHECK(machine.net().count(at.space, "icmp", at.address).packets > 0);
            CHECK(machine.probe(caged(), pinging).status == 0);
        }
    }
    for (const char* address : {public4, public6})
        for (const char* name : {"ping", "ping-connect"})
            CHECK(succeeds(sealed(), {name, address}).says("pinfold!"));
}

} // namespace
} // namespace pinfold::test
