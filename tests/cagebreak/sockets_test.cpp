// Which sockets exist in a cage, which options it may set on them, and how little of netlink it has.
#include "cagebreak/refusal.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <sstream>

namespace pinfold::test {
namespace {

using act = std::vector<std::string>;

constexpr aim target{"lan", "192.168.1.10"};
constexpr aim target6{"lan", "2a01:4f8:77:1::10"};

// family/type/protocol by number. A kernel with a family or a protocol that is new to us fails this test: decide then.
constexpr const char* golden =
    "1/1/0 1/1/1 1/2/0 1/2/1 1/3/0 1/3/1 1/5/0 1/5/1 "    // UNIX (SOCK_RAW means datagrams there)
    "2/1/0 2/1/6 2/2/0 2/2/1 2/2/17 "                     // INET: TCP, UDP, ICMP echo
    "10/1/0 10/1/6 10/2/0 10/2/17 10/2/58 16/2/0 16/3/0"; // INET6 the same; NETLINK route

std::vector<std::string> words(const std::string& text) {
    std::istringstream from(text);
    return {std::istream_iterator<std::string>(from), {}};
}

std::vector<std::string> sockets_of(const cage_kind& kind) {
    const probed made = cage_machine::here().probe(kind, {"sockets"});
    REQUIRE(made.status == 0);
    std::vector<std::string> all = words(made.output);
    all.erase(all.begin(), all.begin() + 2); // "sockets ok"
    return all;
}

bool has(const std::vector<std::string>& all, const char* one) {
    return std::ranges::find(all, one) != all.end();
}

TEST_CASE("B09 the kinds of socket that exist in a cage are exactly these") {
    for (const cage_kind& kind : {sealed(), caged()}) {
        CHECK(sockets_of(kind) == words(golden));
        const auto without_filter = sockets_of(kind.without<filter_syscalls>()); // the mutations
        CHECK(has(without_filter, "16/2/16"));                                   // NETLINK_GENERIC
        CHECK_FALSE(has(without_filter, "2/1/262"));
        const auto without_guard = sockets_of(kind.without(guard::sockets));
        CHECK(has(without_guard, "2/1/262")); // MPTCP
        CHECK_FALSE(has(without_guard, "16/2/16"));
    }
}

TEST_CASE("B09 a family that no guard sees does not exist in a cage, and says so with one errno") {
    struct kind_of_socket {
        const char* name;
        act numbers;
        const char* error;
    };
    const kind_of_socket kinds[] = {
        {"AF_VSOCK", {"socket", "40", "1", "0"}, "EAFNOSUPPORT"},
        {"AF_ALG", {"socket", "38", "5", "0"}, "EAFNOSUPPORT"},
        {"AF_PACKET", {"socket", "17", "3", "768"}, "EAFNOSUPPORT"},
        {"AF_XDP", {"socket", "44", "3", "0"}, "EAFNOSUPPORT"},
        {"AF_BLUETOOTH", {"socket", "31", "3", "0"}, "EAFNOSUPPORT"},
        {"AF_CAN", {"socket", "29", "3", "1"}, "EAFNOSUPPORT"},
        {"AF_KEY", {"socket", "15", "3", "2"}, "EAFNOSUPPORT"},
        {"AF_TIPC", {"socket", "30", "4", "0"}, "EAFNOSUPPORT"},
        {"AF_RDS", {"socket", "21", "5", "0"}, "EAFNOSUPPORT"},
        {"AF_SMC", {"socket", "43", "1", "0"}, "EAFNOSUPPORT"},
        {"AF_INET by SOCK_PACKET", {"socket", "2", "10", "768"}, "EAFNOSUPPORT"},
        {"netfilter's netlink", {"socket", "16", "3", "12"}, "EAFNOSUPPORT"},
        {"uevents' netlink", {"socket", "16", "3", "15"}, "EAFNOSUPPORT"},
        {"raw IPv4", {"socket", "2", "3", "255"}, "E"},
        {"raw IPv6", {"socket", "10", "3", "58"}, "E"},
        {"UDP-Lite", {"socket", "2", "2", "136"}, "E"},
        {"SCTP", {"socket", "2", "1", "132"}, "E"},
        {"DCCP", {"socket", "2", "6", "33"}, "E"},
        {"L2TP", {"socket", "2", "2", "115"}, "E"},
        {"MPTCP", {"socket", "2", "1", "262"}, "EACCES"},
        {"SMC over TCP", {"socket", "2", "1", "256"}, "E"},
    };
    cage_machine& machine = cage_machine::here();
    for (const cage_kind& kind : {sealed(), caged()}) {
        for (const kind_of_socket& each : kinds) {
            CAPTURE(each.name);
            const probed refused = machine.probe(kind, each.numbers);
            CAPTURE(refused.output);
            CHECK(refused.status == 1);
            CHECK(refused.says(std::string("socket ") + each.error));
        }
    }
    CHECK(machine.probe(sealed().without<filter_syscalls>(), {"socket", "16", "3", "15"}).status == 0);
    CHECK(machine.probe(sealed().without(guard::sockets), {"socket", "2", "1", "262"}).status == 0);
}

TEST_CASE("B09 netlink lists links and addresses in a cage, and changes nothing") {
    cage_machine& machine = cage_machine::here();
    for (const cage_kind& kind : {sealed(), caged()}) {
        const probed listed = succeeds(kind, {"interfaces"});
        CHECK(listed.says("lo=127.0.0.1"));
        CHECK(listed.says("eth0=192.0.0.2"));
        CHECK(listed.says("eth0=fd5e:ca9e:1::2"));
        CHECK_FALSE(listed.says("192.168.1.2")); // the machine's
        const probed shown = machine.run(kind, {"ip", "address"});
        CHECK(shown.status == 0);
        CHECK(shown.says("192.0.0.2/29"));
        CHECK(machine.run(kind, {"ip", "route"}).says("default via 192.0.0.1"));

        for (const act& changing :
             {act{"add-route"}, act{"link-down", "eth0"}, act{"link-down", "lo"}, act{"netadmin"}}) {
            CAPTURE(changing[0]);
            CHECK(machine.probe(kind, changing).says("EPERM"));
        }
        CHECK(machine.run(kind, {"ip", "route", "add", "198.51.100.0/24", "via", "192.0.0.1"}).status != 0);
        CHECK(machine.run(kind, {"ip", "address", "add", "198.51.100.1/24", "dev", "eth0"}).status != 0);
        CHECK(machine.run(kind, {"ip", "link", "add", "dummy0", "type", "dummy"}).status != 0);
    }
    // The act is sound: root of a network namespace does it.
    machine.net().run("mesh", PINFOLD_LIBEXEC_DIR "/pinfold-probe add-route >/dev/null");
    machine.net().run("mesh", "ip route delete unreachable 198.51.100.0/24");
}

TEST_CASE("a cage's packets bring no route of their own by a socket option") {
    cage_machine& machine = cage_machine::here();
    const act options[] = {{"ip-options", target.address}, {"rthdr", target6.address}, {"hop-options"}};
    for (const cage_kind& kind : {sealed(), caged()}) {
        for (const act& each : options) {
            CAPTURE(each[0]);
            const probed refused = machine.probe(kind, each);
            CHECK(refused.says("EACCES"));
            REQUIRE_FALSE(refused.denials.empty());
            CHECK(refused.denials[0].act == PINFOLD_ACT_OPTION);
            CHECK(refused.denials[0].rule == PINFOLD_RULE_SOURCE_ROUTE);
        }
        CHECK(machine.probe(kind.without(guard::options), options[1]).status == 0); // the mutation
        // Some kernels leave the others to administrators, by an errno that is not the guard's.
        for (const act* each : {&options[0], &options[2]})
            CHECK_FALSE(machine.probe(kind.without(guard::options), *each).says("EACCES"));
    }
    // The twin: what programs do set.
    const probed set = machine.run(sealed(), python("import socket as s\n"
                                                    "t = s.socket(s.AF_INET, s.SOCK_STREAM)\n"
                                                    "t.setsockopt(s.IPPROTO_TCP, s.TCP_NODELAY, 1)\n"
                                                    "t.setsockopt(s.SOL_SOCKET, s.SO_KEEPALIVE, 1)\n"
                                                    "t.setsockopt(s.IPPROTO_IP, s.IP_TOS, 16)\n"
                                                    "t.setsockopt(s.IPPROTO_IP, s.IP_OPTIONS, b'')\n"
                                                    "print('all set')"));
    CAPTURE(set.output, set.errors);
    CHECK(set.says("all set"));
}

// Beside one datagram no hook sees it; the relay takes no packet with options or extension headers.
TEST_CASE("a cage's packets bring no route of their own beside a datagram") {
    cage_machine& machine = cage_machine::here();
    const struct {
        act sending;
        aim at;
        act twin;
    } ways[] = {{{"ip-options-beside", "93.184.216.34", "9000", target.address},
                 target,
                 {"send-udp", "93.184.216.34", "9000"}},
                {{"rthdr-beside", "2606:2800:220:1::34", "9000", target6.address},
                 target6,
                 {"send-udp", "2606:2800:220:1::34", "9000"}}};
    for (const auto& each : ways) {
        CAPTURE(each.sending[0]);
        for (const cage_kind& kind :
             {sealed(), caged(), sealed().with_open_relay().without(guard::options)}) {
            machine.net().reset();
            (void)machine.probe(kind, each.sending);
            CHECK(arrived_at({each.at.space, each.at.address, 0}) == nothing);
            (void)succeeds(kind, each.twin);
        }
    }
    machine.net().reset(); // with no cage around it, and by root, the route is taken
    machine.net().run("machine", PINFOLD_LIBEXEC_DIR
                      "/pinfold-probe ip-options-beside 93.184.216.34 9000 192.168.1.10 >/dev/null");
    CHECK(arrived_at({"lan", target.address, 0}).packets > 0);
}

} // namespace
} // namespace pinfold::test
