// "This host": whatever means it, in any spelling, is the cage's own loopback or nothing, and never the machine's.
#include "cagebreak/refusal.hpp"

namespace pinfold::test {
namespace {

using act = std::vector<std::string>;

constexpr const char* own_spellings[] = {
    "0.0.0.0", "127.0.0.1", "127.1.2.3", "::", "::1", "::ffff:0.0.0.0", "::ffff:127.0.0.1"};
constexpr const char* no_ones[] = {"0.1.2.3",   "0.255.255.255", "::ffff:0.1.2.3", "64:ff9b::127.0.0.1",
                                   "64:ff9b::", "::127.0.0.1"};
constexpr const char* acts[] = {"connect-tcp", "connect-udp", "send-udp", "fastopen"};

arrived at_the_machine() {
    return cage_machine::here().net().count("machine", "", "", 9000);
}

TEST_CASE("B03 what means this host never reaches a service of the machine") {
    cage_machine& machine = cage_machine::here();
    const cage_kind open =
        sealed().without(guard::destinations).with_open_relay(); // only a cage's own network is left
    for (const cage_kind& kind :
         {sealed(), caged(), caged().with_open_relay(), sealed().without(guard::destinations), open}) {
        machine.net().reset();
        for (const char* address : own_spellings)
            for (const char* name : acts) (void)machine.probe(kind, {name, address, "9000", "ping!"});
        CHECK(at_the_machine() == nothing);
    }
    for (const cage_kind& kind : {sealed(), caged()}) {
        for (const char* address : no_ones) {
            for (const char* name : acts) {
                CAPTURE(address, name);
                machine.net().reset();
                const act trying{name, address, "9000", "ping!"};
                const probed refused = machine.probe(kind.with_open_relay(), trying);
                CHECK(refused.says("EACCES"));
                REQUIRE_FALSE(refused.denials.empty());
                (void)machine.probe(kind.without(guard::destinations), trying);
                CHECK(at_the_machine() == nothing);
            }
        }
    }
    for (const char* address : {"127.0.0.1", "0.0.0.0", "::1", "::"}) { // with no cage the service is there
        machine.net().reset();
        CHECK(machine.bare({"connect-tcp", address, "9000", "ping!"}).status == 0);
        CHECK(at_the_machine().packets > 0);
    }
}

TEST_CASE("B03 the machine's stub resolver on its loopback is not to be reached from a cage") {
    cage_machine& machine = cage_machine::here();
    for (const cage_kind& kind : {sealed(), caged(), caged().with_open_relay()}) {
        machine.net().reset();
        (void)machine.probe(kind, {"connect-tcp", "127.0.0.53", "53", "ping!"});
        (void)machine.probe(kind, {"send-udp", "127.0.0.53", "53", "ping!"});
        CHECK(machine.net().count("machine", "", "127.0.0.53", 53) == nothing);
    }
    CHECK(machine.bare({"connect-tcp", "127.0.0.53", "53"}).status == 0);
    CHECK(machine.net().count("machine", "tcp", "127.0.0.53", 53).syns > 0);
}

TEST_CASE("B03 a server of a cage's own is reached by the same spellings") {
    for (const cage_kind& kind : {sealed(), caged()}) {
        for (const char* address : own_spellings) {
            CAPTURE(address);
            (void)succeeds(kind, {"self-connect", address});
        }
        for (const char* address : {"192.0.0.2", "fd5e:ca9e:1::2"})
            (void)succeeds(kind, {"self-connect", address});
        for (const char* address : no_ones) {
            CAPTURE(address);
            CHECK(cage_machine::here().probe(kind, {"self-connect", address}).says("EACCES"));
        }
    }
}

// As a URL may have them, resolved by the C library.
TEST_CASE("B03 an odd spelling of a loopback address is the cage's own loopback too") {
    cage_machine& machine = cage_machine::here();
    const std::string code =
        "import socket, threading\n"
        "server = socket.create_server(('', 8080))\n"
        "def serve():\n"
        "    while True: server.accept()[0].sendall(b'inside')\n"
        "threading.Thread(target=serve, daemon=True).start()\n"
        "for host in ('0', '0x7f.1', '2130706433', '017700000001', '127.1', 'localhost', '0x7f000001'):\n"
        "    print(host, socket.create_connection((host, 8080), 5).recv(6))\n";
    for (const cage_kind& kind : {sealed(), caged()}) {
        machine.net().reset();
        const probed found = machine.run(kind, python(code));
        CAPTURE(found.output, found.errors);
        CHECK(found.status == 0);
        for (const char* host :
             {"0 ", "0x7f.1 ", "2130706433 ", "017700000001 ", "127.1 ", "localhost ", "0x7f000001 "})
            CHECK(found.says(std::string(host) + "b'inside'"));
        CHECK(machine.net().count("machine", "", "", 8080) == nothing);
    }
}

} // namespace
} // namespace pinfold::test
