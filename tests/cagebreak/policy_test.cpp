// The policy of a cage: refused where there is none, the same in child cgroups and later programs, written down when it refuses.
#include "cagebreak/refusal.hpp"

#include "base/error.hpp"
#include "base/file.hpp"

#include <arpa/inet.h>
#include <cstring>
#include <netinet/in.h>

namespace pinfold::test {
namespace {

using act = std::vector<std::string>;

constexpr aim target{"lan", "192.168.1.10"};

TEST_CASE("B51 a cage without a policy is refused everything") {
    cage_machine& machine = cage_machine::here();
    for (const cage_kind& kind : {sealed().without<write_policy>(), caged().without<write_policy>()}) {
        const cage_kind open = kind.with_open_relay();
        machine.net().reset();
        for (const char* address :
             {"93.184.216.34", "2606:2800:220:1::34", "192.168.1.10", "127.0.0.1", "192.0.0.1"}) {
            for (const char* name : {"connect-tcp", "connect-udp", "send-udp"}) {
                CAPTURE(address, name);
                CHECK(machine.probe(open, {name, address, "9000", "ping!"}).says("EACCES"));
            }
        }
        // Each guard by itself: the socket guard would refuse before the others were asked.
        const cage_kind destinations_alone = open.without(guard::sockets).without(guard::options);
        CHECK(machine.probe(destinations_alone, {"connect-tcp", "93.184.216.34", "9000"})
                  .says("EACCES connect"));
        CHECK(machine.probe(destinations_alone, {"send-udp", "93.184.216.34", "9000"}).says("EACCES sendto"));
        CHECK(machine.probe(open.without(guard::sockets), {"rthdr", "2606:2800:220:1::34"})
                  .says("EACCES setsockopt"));
        for (const char* space : {"machine", "lan", "internet"})
            CHECK(machine.net().count(space, "", "", 9000) == nothing);
        CHECK(machine.probe(kind, {"abstract-pair", "pinfold-twin"}).status ==
              0); // what needs no network goes on
    }
    (void)succeeds(sealed(), {"connect-tcp", "93.184.216.34", "9000", "ping!"});
    const cage_kind unguarded =
        sealed().without<write_policy>().without<attach_guard>().with_open_relay(); // the mutation
    CHECK(machine.probe(unguarded, {"connect-tcp", target.address, "9000", "ping!"}).status == 0);
}

// Waits until it was moved into the child cgroup, then tries; `inside` is what /proc/self/cgroup ends with.
std::vector<std::string> from_below() {
    return python("import socket, time, errno\n"
                  "while '/below' not in open('/proc/self/cgroup').read(): time.sleep(0.01)\n"
                  "for host in ('192.168.1.10', '93.184.216.34'):\n"
                  "    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):\n"
                  "        s = socket.socket(socket.AF_INET, kind)\n"
                  "        s.settimeout(5)\n"
                  "        try:\n"
                  "            s.connect((host, 9000)); s.send(b'ping!'); print(host, kind.name, s.recv(5))\n"
                  "        except OSError as error:\n"
                  "            print(host, kind.name, errno.errorcode.get(error.errno, error))\n");
}

probed tried_below(const cage_kind& kind) {
    const auto cage = cage_machine::here().start(kind, from_below());
    const cgroup below = cgroup::make(cage->built().group().fd(), "below");
    below.write("cgroup.procs", std::to_string(cage->built().program().pid()));
    return cage->finish();
}

TEST_CASE("B13 a program in a child cgroup is judged by the cage's policy") {
    cage_machine& machine = cage_machine::here();
    machine.net().reset();
    const probed tried = tried_below(sealed().with_open_relay());
    CAPTURE(tried.output, tried.errors);
    CHECK(tried.says("192.168.1.10 SOCK_STREAM EACCES"));
    CHECK(tried.says("192.168.1.10 SOCK_DGRAM EACCES"));
    CHECK(arrived_at(target) == nothing);
    CHECK(tried.denials.size() == 2);
    CHECK(tried.says("93.184.216.34 SOCK_STREAM b'ping!'"));
    CHECK(tried.says("93.184.216.34 SOCK_DGRAM b'ping!'"));
    CHECK(tried_below(sealed().with_open_relay().without(guard::destinations))
              .says("192.168.1.10 SOCK_STREAM b'ping!'"));
}

TEST_CASE("B13 a cage makes no cgroup, and moves nothing into one") {
    cage_machine& machine = cage_machine::here();
    for (const cage_kind& kind : {sealed(), caged()})
        CHECK(machine.probe(kind, {"cgroup-write"}).status == 1);
    const probed tried = machine.run(sealed(),
                                     python("import os\n"
                                            "for path in ('/sys/fs/cgroup', '/sys/fs/cgroup/unified'):\n"
                                            "    try: os.mkdir(path + '/mine'); print('made')\n"
                                            "    except OSError: print('no')\n"));
    CHECK_FALSE(tried.says("made"));
}

TEST_CASE("B13 a program that enters a cage later, and what it executes, is judged by the cage's policy") {
    cage_machine& machine = cage_machine::here();
    const auto cage = machine.start(sealed().with_open_relay(), {"sleep", "60"});
    machine.net().reset();
    const std::string connecting = "exec 3<>/dev/tcp/192.168.1.10/9000 && echo reached";
    const probed refused = cage->enter({"setsid", "bash", "-c", "bash -c '" + connecting + "'"});
    CAPTURE(refused.output, refused.errors);
    CHECK_FALSE(refused.says("reached"));
    CHECK(refused.errors.find("Permission denied") != std::string::npos);
    CHECK(arrived_at(target) == nothing);
    const std::string allowed = "exec 3<>/dev/tcp/93.184.216.34/9000 && echo reached";
    CHECK(cage->enter({"setsid", "bash", "-c", "bash -c '" + allowed + "'"}).says("reached"));
}

TEST_CASE("a denial says who tried what, to where, and by which rule it was refused") {
    struct expected {
        act tried;
        std::uint32_t what, rule, family, type, protocol, port;
        const char* address;
    };
    const expected cases[] = {
        {{"connect-tcp", "192.168.1.10", "9000"},
         PINFOLD_ACT_CONNECT,
         PINFOLD_RULE_PRIVATE,
         AF_INET,
         SOCK_STREAM,
         IPPROTO_TCP,
         9000,
         "192.168.1.10"},
        {{"send-udp", "::ffff:100.64.0.2", "53"},
         PINFOLD_ACT_SEND,
         PINFOLD_RULE_SHARED,
         AF_INET,
         SOCK_DGRAM,
         IPPROTO_UDP,
         53,
         "100.64.0.2"},
        {{"connect-udp", "2a01:4f8:77:1::2", "22"},
         PINFOLD_ACT_CONNECT,
         PINFOLD_RULE_MACHINE,
         AF_INET6,
         SOCK_DGRAM,
         IPPROTO_UDP,
         22,
         "2a01:4f8:77:1::2"},
        {{"fastopen", "81.2.69.10", "445"},
         PINFOLD_ACT_CONNECT,
         PINFOLD_RULE_ROUTE,
         AF_INET,
         SOCK_STREAM,
         IPPROTO_TCP,
         445,
         "81.2.69.10"},
        {{"mptcp", "93.184.216.34", "80"},
         PINFOLD_ACT_SOCKET,
         PINFOLD_RULE_SOCKET_KIND,
         AF_INET,
         SOCK_STREAM,
         262,
         0,
         "0.0.0.0"},
        {{"rthdr", "2606:2800:220:1::34"},
         PINFOLD_ACT_OPTION,
         PINFOLD_RULE_SOURCE_ROUTE,
         AF_INET6,
         IPPROTO_IPV6,
         IPV6_RTHDR,
         0,
         "::"},
    };
    cage_machine& machine = cage_machine::here();
    for (const expected& each : cases) {
        CAPTURE(each.tried[0]);
        const probed refused = machine.probe(sealed(), each.tried);
        REQUIRE(refused.denials.size() == 1); // one act, one record
        const pinfold_denial& denial = refused.denials[0];
        CHECK(denial.act == each.what);
        CHECK(denial.rule == each.rule);
        CHECK(denial.family == each.family);
        CHECK(denial.type == each.type);
        CHECK(denial.protocol == each.protocol);
        CHECK(denial.port == each.port);
        char text[INET6_ADDRSTRLEN] = {};
        ::inet_ntop(static_cast<int>(denial.family), denial.address, text, sizeof text);
        CHECK(text == std::string(each.address));
        CHECK(denial.pid > 1); // of the machine's numbering, where 1 is not the cage's init
        CHECK(denial.time_ns > 0);
    }
    const probed refused = machine.run(sealed(), {"bash", "-c", "exec 3<>/dev/tcp/192.168.1.10/9000"});
    REQUIRE(refused.denials.size() == 1);
    CHECK(std::string(refused.denials[0].comm) == "bash");
}

} // namespace
} // namespace pinfold::test
