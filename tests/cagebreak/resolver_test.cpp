// Names in a cage: who is asked, who is not, and what a name may lead to.
#include "cagebreak/refusal.hpp"

namespace pinfold::test {
namespace {

using act = std::vector<std::string>;

constexpr const char* lan_server = "192.168.1.1";
constexpr const char* stub = "127.0.0.53"; // the machine's own

// One question to one server, by UDP or TCP; prints the answer's code and how many records it has.
std::vector<std::string> ask(const std::string& server, const std::string& name, bool tcp) {
    const std::string code =
        "import socket, struct, sys\n"
        "server, name, tcp = sys.argv[1], sys.argv[2], sys.argv[3] == 'tcp'\n"
        "labels = b''.join(bytes([len(l)]) + l.encode() for l in name.split('.'))\n"
        "query = struct.pack('!6H', 7, 0x100, 1, 0, 0, 0) + labels + bytes([0, 0, 1, 0, 1])\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM)\n"
        "s.settimeout(5)\n"
        "s.connect((server, 53))\n"
        "s.sendall(struct.pack('!H', len(query)) + query if tcp else query)\n"
        "reply = s.recv(4096)\n"
        "head = struct.unpack_from('!6H', reply, 2 if tcp else 0)\n"
        "print('code', head[1] & 15, 'records', head[3])\n";
    std::vector<std::string> argv = python(code);
    argv.insert(argv.end(), {server, name, tcp ? "tcp" : "udp"});
    return argv;
}

TEST_CASE("B17 a caged cage asks the machine's resolvers, by UDP and by TCP") {
    cage_machine& machine = cage_machine::here();
    CHECK(machine.probe(caged(), {"read", "/etc/resolv.conf"}).says("nameserver 192.0.0.1"));
    for (const char* name : {"nas.lan", "peer.mesh", "example.com"}) {
        machine.net().reset();
        const probed found = machine.run(caged(), {"getent", "ahosts", name});
        CAPTURE(name, found.output, found.errors);
        CHECK(found.status == 0);
        CHECK(machine.net().questions(lan_server, name) >= 2); // A and AAAA
        for (const bool tcp : {false, true}) {
            const probed asked = machine.run(caged(), ask("192.0.0.1", name, tcp));
            CAPTURE(tcp, asked.output, asked.errors);
            CHECK(asked.says("code 0 records 1"));
        }
    }
    CHECK(machine.run(caged(), {"getent", "hosts", "nas.lan"}).says("fdaa:bbbb:cccc:1::10"));
    CHECK(machine.run(caged(), {"getent", "ahostsv4", "nas.lan"}).says("192.168.1.10"));
    CHECK(machine.run(caged(), {"getent", "hosts", "nobody.lan"}).status == 2); // not found, and at once
    CHECK(
        machine.run(caged(), {"curl", "-sS", "--max-time", "10", "http://router.lan/"}).says("router admin"));
}

TEST_CASE("B17 a sealed cage asks public resolvers, and they know nothing of the machine's networks") {
    cage_machine& machine = cage_machine::here();
    machine.net().reset();
    const probed file = machine.probe(sealed(), {"read", "/etc/resolv.conf"});
    CHECK(file.says("nameserver 1.1.1.1"));
    CHECK(file.says("nameserver 9.9.9.9"));
    CHECK_FALSE(file.says("192.168"));
    CHECK_FALSE(file.says("192.0.0.1"));
    CHECK_FALSE(file.says("search"));

    CHECK(machine.run(sealed(), {"getent", "ahostsv4", "example.com"}).says("93.184.216.34"));
    CHECK(machine.run(sealed(), {"getent", "ahostsv6", "example.com"}).says("2606:2800:220:1::34"));
    CHECK(machine.net().questions("1.1.1.1", "example.com") > 0);
    for (const char* name : {"nas.lan", "router.lan", "machine.lan", "peer.mesh", "nas"}) {
        CAPTURE(name);
        CHECK(machine.run(sealed(), {"getent", "hosts", name}).status == 2);
    }
    for (const bool tcp : {false, true}) {
        CHECK(machine.run(sealed(), ask("9.9.9.9", "example.com", tcp)).says("code 0 records 1"));
        CHECK(machine.run(sealed(), ask("1.1.1.1", "nas.lan", tcp)).says("code 3 records 0"));
    }
    CHECK(machine.net().questions(lan_server) == 0);
    CHECK(machine.net().questions(stub) == 0);
}

TEST_CASE("B17 a sealed cage's question reaches no resolver of the machine's, asked there directly") {
    cage_machine& machine = cage_machine::here();
    const std::string label = "secret.evil.example";
    for (const char* server :
         {"192.0.0.1", "192.168.1.1", "127.0.0.53", "192.168.1.2", "81.2.69.2", "100.64.0.2"}) {
        for (const bool tcp : {false, true}) {
            CAPTURE(server, tcp);
            machine.net().reset();
            for (const cage_kind& kind :
                 {sealed(), sealed().with_open_relay(), sealed().without(guard::destinations)}) {
                const probed refused = machine.run(kind, ask(server, label, tcp));
                CAPTURE(refused.output, refused.errors);
                CHECK(refused.status == 1);
                CHECK_FALSE(refused.says("code"));
            }
            CHECK(machine.net().questions(lan_server) == 0);
            CHECK(machine.net().questions(stub) == 0);
            CHECK(machine.net().count("lan", "", lan_server, 53) == nothing);
        }
    }
    for (const bool tcp :
         {false, true}) { // the same questions, where they are allowed and where nothing stands in their way
        machine.net().reset();
        CHECK(machine.run(caged(), ask("192.0.0.1", label, tcp)).says("code 3"));
        CHECK(machine.net().questions(lan_server, label) == 1);
        CHECK(
            machine.run(sealed().without(guard::destinations).with_open_relay(), ask(lan_server, label, tcp))
                .says("code 3"));
        CHECK(machine.net().questions(lan_server, label) == 2);
        CHECK(machine.run(sealed(), ask("1.1.1.1", label, tcp))
                  .says("code 3")); // as any other internet address
    }
}

TEST_CASE("B17 a public name that leads to the LAN leads a sealed cage nowhere") {
    cage_machine& machine = cage_machine::here();
    const cage_kind open = sealed().without(guard::destinations).with_open_relay();
    for (const char* name : {"rebind.example.com", "mapped.example.com"}) {
        CAPTURE(name);
        const act fetching{"curl", "-sS", "--max-time", "10", std::string("http://") + name + "/"};
        machine.net().reset();
        for (const cage_kind& kind :
             {sealed(), sealed().with_open_relay(), sealed().without(guard::destinations)}) {
            const probed refused = machine.run(kind, fetching);
            CAPTURE(refused.output, refused.errors);
            CHECK(refused.status == 7); // curl: could not connect
        }
        CHECK(machine.net().questions("1.1.1.1", name) > 0); // it was resolved
        CHECK(arrived_at({"lan", "192.168.1.10", 80}) == nothing);
        const probed reached = machine.run(open, fetching);
        CAPTURE(reached.output, reached.errors);
        CHECK(arrived_at({"lan", "192.168.1.10", 80}).syns > 0);
    }
    CHECK(machine.run(sealed(), {"curl", "-sS", "--max-time", "10", "http://example.com/"})
              .says("hello from the internet"));
}

} // namespace
} // namespace pinfold::test
