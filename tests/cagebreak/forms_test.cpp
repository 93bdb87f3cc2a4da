// The forms of an address and of an act that opens a connection: each of them is judged by where it would lead.
#include "cagebreak/refusal.hpp"
#include "support/time_scale.hpp"

#include <cerrno>

namespace pinfold::test {
namespace {

using act = std::vector<std::string>;

constexpr aim lan4{"lan", "192.168.1.10"};
constexpr aim lan6{"lan", "2a01:4f8:77:1::10"};

TEST_CASE("B07 a send that connects sends no SYN to a local address") {
    cage_machine& machine = cage_machine::here();
    for (const char* name : {"fastopen", "fastopen-connect", "fastopen-blind"}) {
        for (const aim& at : {lan4, lan6}) {
            CAPTURE(name, at.address);
            const act opening{name, at.address, "9000", "ping!"};
            const probed refused = both_walls_refuse(sealed(), opening, at);
            REQUIRE_FALSE(refused.denials.empty());
            CHECK(refused.denials[0].act == PINFOLD_ACT_CONNECT);
            CHECK(refused.denials[0].rule ==
                  machine.probe(sealed(), {"connect-tcp", at.address, "9000"}).denials.at(0).rule);
        }
        for (const char* address : {"93.184.216.34", "2606:2800:220:1::34", "::ffff:93.184.216.34"}) {
            CAPTURE(name, address);
            CHECK(succeeds(sealed(), {name, address, "9000", "ping!"}).says("ping!"));
        }
    }
}

TEST_CASE("B05 multipath TCP does not exist in a cage, and without that rule it is judged as TCP is") {
    cage_machine& machine = cage_machine::here();
    for (const cage_kind& kind : {sealed(), caged()}) {
        const probed refused = machine.probe(kind, {"mptcp", "93.184.216.34", "9000", "ping!"});
        CHECK(refused.says("EACCES socket"));
        REQUIRE_FALSE(refused.denials.empty());
        CHECK(refused.denials[0].rule == PINFOLD_RULE_SOCKET_KIND);
    }
    const cage_kind with_mptcp = sealed().without(guard::sockets);
    for (const aim& at : {lan4, lan6}) {
        const act opening{"mptcp", at.address, "9000", "ping!"};
        (void)guard_refuses(with_mptcp, opening, at); // its connect() meets the destination guard
        (void)relay_refuses(with_mptcp, opening, at);
        arrives_without(guard::destinations, with_mptcp, opening, at);
    }
    // To the relay it is plain TCP, so no peer can offer it a second way: the machine's own socket is none.
    CHECK(machine.probe(with_mptcp, {"mptcp", "93.184.216.34", "9000", "ping!"}).status == 0);
}

TEST_CASE("an address that is swapped while connect() reads it is judged as it is used") {
    cage_machine& machine = cage_machine::here();
    const act racing{"race-connect", "93.184.216.34", "192.168.1.10", "9000", "30000"};
    machine.net().reset();
    const probed refused = machine.probe(sealed().with_open_relay(), racing);
    CAPTURE(refused.output);
    CHECK(refused.status == 1);
    CHECK(refused.says("b=0 "));
    CHECK(arrived_at(lan4) == nothing);
    CHECK(refused.denials.size() > 0);
    CHECK(machine.net().count("internet", "udp", "93.184.216.34", 9000).packets > 0);
    CHECK(machine.probe(sealed().with_open_relay().without(guard::destinations), racing).status == 0);
    CHECK(arrived_at(lan4).packets > 0);
}

TEST_CASE("an address that is swapped 300,000 times is judged as it is used, every time") {
    cage_machine& machine = cage_machine::here();
    const char* times = time_scale() > 1 ? "30000"
                                         : "300000"; // where threads take turns on one slow CPU, fewer
    machine.net().reset();
    const probed refused = machine.probe(sealed().with_open_relay(),
                                         {"race-connect", "93.184.216.34", "192.168.1.10", "9000", times});
    CAPTURE(refused.output);
    CHECK(refused.says("b=0 "));
    CHECK(arrived_at(lan4) == nothing);
}

// Made by one process, used by another: after fork and exec, and handed over a Unix socket. It is the cage's own in all of
// them, for a guard judges by the cgroup in which a socket was made.
TEST_CASE("a socket that is inherited or handed over within a cage is judged as any other") {
    cage_machine& machine = cage_machine::here();
    const std::string code =
        "import os, socket, sys, errno\n"
        "def user(fd, host):\n"
        "    return ['python3', '-I', '-c', 'import socket, errno, sys\\n'\n"
        "            's = socket.socket(fileno=int(sys.argv[1])); s.settimeout(5)\\n'\n"
        "            'try: s.connect((sys.argv[2], 9000)); s.send(b\"ping!\"); print(s.type.name, "
        "s.recv(5))\\n'\n"
        "            'except OSError as e: print(s.type.name, errno.errorcode[e.errno])', str(fd), host]\n"
        "for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):\n"
        "    s = socket.socket(socket.AF_INET, kind); os.set_inheritable(s.fileno(), True)\n"
        "    sys.stdout.flush()\n"
        "    if os.fork() == 0: os.setsid(); a = user(s.fileno(), HOST); os.execvp(a[0], a)\n"
        "    os.wait()\n"
        "    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)\n"
        "    fresh = socket.socket(socket.AF_INET, kind)\n"
        "    socket.send_fds(ours, [b'x'], [fresh.fileno()]); fresh.close()\n"
        "    if os.fork() == 0:\n"
        "        fd = socket.recv_fds(theirs, 1, 1)[1][0]; os.set_inheritable(fd, True)\n"
        "        a = user(fd, HOST); os.execvp(a[0], a)\n"
        "    os.wait()\n";
    const auto to = [&code](const char* host) { return python(std::string("HOST='") + host + "'\n" + code); };
    machine.net().reset();
    const probed refused = machine.run(sealed().with_open_relay(), to("192.168.1.10"));
    CAPTURE(refused.output, refused.errors);
    CHECK(refused.output == "SOCK_STREAM EACCES\nSOCK_STREAM EACCES\nSOCK_DGRAM EACCES\nSOCK_DGRAM EACCES\n");
    CHECK(refused.denials.size() == 4);
    CHECK(arrived_at(lan4) == nothing);
    const std::string all =
        "SOCK_STREAM b'ping!'\nSOCK_STREAM b'ping!'\nSOCK_DGRAM b'ping!'\nSOCK_DGRAM b'ping!'\n";
    CHECK(machine.run(sealed(), to("93.184.216.34")).output == all);
    CHECK(machine.run(sealed().with_open_relay().without(guard::destinations), to("192.168.1.10")).output ==
          all);
    CHECK(arrived_at(lan4).packets > 0);
}

TEST_CASE("B11 a cage has no io_uring, and without that rule its connections are judged all the same") {
    cage_machine& machine = cage_machine::here();
    for (const cage_kind& kind : {sealed(), caged()}) CHECK(machine.probe(kind, {"io-uring"}).says("ENOSYS"));
    const cage_kind with_rings = sealed().without<filter_syscalls>();
    const act connecting{"io-uring-connect", lan4.address, "9000"};
    CHECK(machine.probe(sealed(), connecting).says("ENOSYS"));
    (void)both_walls_refuse(with_rings, connecting, lan4);
    CHECK(machine.probe(with_rings, {"io-uring-connect", "93.184.216.34", "9000"}).status == 0);
}

TEST_CASE("a cloud's metadata service is out of a sealed cage's reach") {
    cage_machine& machine = cage_machine::here();
    const aim metadata{"lan", "169.254.169.254", 80};
    machine.net().run("lan", "ip address replace 169.254.169.254/32 dev eth0");
    machine.net().listen("lan", "tcp", metadata.address, 80);
    for (const char* address : {"169.254.169.254", "::ffff:169.254.169.254"}) {
        for (const char* name : {"connect-tcp", "connect-udp", "send-udp"}) {
            const probed refused = both_walls_refuse(sealed(), {name, address, "80", "GET /"}, metadata);
            REQUIRE_FALSE(refused.denials.empty());
            CHECK(refused.denials[0].rule == PINFOLD_RULE_LINK_LOCAL);
        }
    }
    CHECK(machine.probe(caged(), {"connect-tcp", metadata.address, "80", "GET /"}).says("GET /"));
    machine.net().run("lan", "ip address delete 169.254.169.254/32 dev eth0");
}

TEST_CASE("a link-local IPv6 address leaves no cage, with a zone and without") {
    cage_machine& machine = cage_machine::here();
    for (const cage_kind& kind : {sealed(), caged()}) {
        for (const char* address : {"fe80::10", "fe80::10%eth0", "fe80::10%lo"}) {
            for (const char* name : {"connect-tcp", "connect-udp", "send-udp"}) {
                CAPTURE(address, name);
                const act sending{name, address, "9000", "ping!"};
                const probed refused = guard_refuses(kind, sending, {"lan", "fe80::10"});
                REQUIRE_FALSE(refused.denials.empty());
                CHECK(refused.denials[0].rule == PINFOLD_RULE_LINK_LOCAL);
                (void)relay_refuses(kind, sending, {"lan", "fe80::10"});
            }
        }
    }
    machine.net()
        .reset(); // no cage's packet names a link of the machine's, so only with no cage at all does it arrive
    CHECK(machine.bare({"connect-udp", "fe80::10%eth0", "9000", "ping!"}).status == 0);
    CHECK(arrived_at({"lan", "fe80::10"}).packets > 0);
}

// What leaves for these is on its way into the internet of the world, where nobody has them, and is counted.
TEST_CASE(
    "an address that hides an IPv4 address, or that a translator or a tunnel takes, leaves no sealed cage") {
    struct form {
        const char* address;
        std::uint32_t rule;
    };
    constexpr form forms[] = {
        {"2002:c0a8:10a::1", PINFOLD_RULE_TUNNEL},             // 6to4
        {"2001:0:c0a8:10a::1", PINFOLD_RULE_TUNNEL},           // Teredo
        {"2606:4700::5efe:c0a8:10a", PINFOLD_RULE_TUNNEL},     // ISATAP
        {"2606:4700::200:5efe:c0a8:10a", PINFOLD_RULE_TUNNEL}, // with its universal bit
        {"::ffff:0:c0a8:10a", PINFOLD_RULE_TUNNEL},            // translated
        {"64:ff9b::c0a8:10a", PINFOLD_RULE_PRIVATE},           // NAT64: 192.168.1.10
        {"64:ff9b::5102:450a", PINFOLD_RULE_ROUTE},            // NAT64: 81.2.69.10, on the LAN
        {"64:ff9b::5102:4502", PINFOLD_RULE_MACHINE},          // NAT64: the machine
        {"64:ff9b:1::c0a8:10a", PINFOLD_RULE_RESERVED},
        {"fec0::10", PINFOLD_RULE_PRIVATE},
        {"fd12:3456:789a::10", PINFOLD_RULE_PRIVATE},
        {"100::10", PINFOLD_RULE_RESERVED},
    };
    for (const form& each : forms) {
        for (const char* name : {"connect-tcp", "connect-udp", "send-udp"}) {
            CAPTURE(each.address, name);
            const act sending{name, each.address, "9000", "ping!"};
            const probed refused = both_walls_refuse(sealed(), sending, {"lan", each.address});
            REQUIRE_FALSE(refused.denials.empty());
            CHECK(refused.denials[0].rule == each.rule);
        }
    }
}

TEST_CASE("a public address behind a translator works, and an IPv4-compatible one is nobody's in any mode") {
    cage_machine& machine = cage_machine::here();
    machine.net().run("internet", "ip address replace 64:ff9b::5db8:d822/128 dev lo"); // NAT64: 93.184.216.34
    for (const char* name : {"connect-tcp", "ask-udp"})
        CHECK(succeeds(sealed(), {name, "64:ff9b::5db8:d822", "9000", "ping!"}).says("ping!"));
    machine.net().run("internet", "ip address delete 64:ff9b::5db8:d822/128 dev lo");
    for (const cage_kind& kind : {sealed(), caged()}) {
        const act sending{"send-udp", "::192.168.1.10", "9000", "ping!"};
        const probed refused = guard_refuses(kind, sending, {"lan", "::192.168.1.10"});
        REQUIRE_FALSE(refused.denials.empty());
        CHECK(refused.denials[0].rule == PINFOLD_RULE_TUNNEL);
        (void)relay_refuses(kind, sending, {"lan", "::192.168.1.10"});
    }
}

} // namespace
} // namespace pinfold::test
