// Sockets that are bound, to an address that is not theirs or to a device, and datagrams that name their source: none of it
// changes what is judged, nor where a packet goes.
#include "cagebreak/refusal.hpp"

#include <cerrno>

namespace pinfold::test {
namespace {

// To "this host" from the target's own address, which the kernel might take for the destination; and by a device.
const char* const by_source =
    "import errno, socket, struct\n"
    "T4, T6 = '192.168.1.10', '2a01:4f8:77:1::10'\n"
    "packed4, packed6 = socket.inet_aton(T4), socket.inet_pton(socket.AF_INET6, T6)\n"
    "def attempt(what, act):\n"
    "    try: act(); print(what, 'ok')\n"
    "    except OSError as error: print(what, errno.errorcode.get(error.errno, error))\n"
    "def of(family, kind):\n"
    "    s = socket.socket(family, kind)\n"
    "    s.settimeout(1)\n"
    "    return s\n"
    "for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):\n"
    "    for level, name in ((socket.IPPROTO_IP, 15), (socket.IPPROTO_IP, 19)):\n" // FREEBIND, TRANSPARENT
    "        def act():\n"
    "            s = of(socket.AF_INET, kind)\n"
    "            s.setsockopt(level, name, 1)\n"
    "            s.bind((T4, 0))\n"
    "            s.connect(('0.0.0.0', 9000))\n"
    "            s.send(b'x')\n"
    "        attempt(f'v4 {kind.name} {name}', act)\n"
    "    def act():\n"
    "        s = of(socket.AF_INET6, kind)\n"
    "        s.setsockopt(socket.IPPROTO_IPV6, 78, 1)\n" // IPV6_FREEBIND
    "        s.bind((T6, 0))\n"
    "        s.connect(('::', 9000))\n"
    "        s.send(b'x')\n"
    "    attempt(f'v6 {kind.name}', act)\n"
    "    def act():\n"
    "        s = of(socket.AF_INET6, kind)\n"
    "        s.setsockopt(socket.IPPROTO_IP, 15, 1)\n"
    "        s.bind(('::ffff:' + T4, 0))\n"
    "        s.connect(('::', 9000))\n"
    "        s.send(b'x')\n"
    "    attempt(f'mapped {kind.name}', act)\n"
    "def act():\n"
    "    of(socket.AF_INET, socket.SOCK_DGRAM).sendmsg([b'x'], [(socket.IPPROTO_IP, 8,\n" // IP_PKTINFO
    "        struct.pack('i', 0) + packed4 + packed4)], 0, ('0.0.0.0', 9000))\n"
    "attempt('pktinfo v4', act)\n"
    "def act():\n"
    "    of(socket.AF_INET6, socket.SOCK_DGRAM).sendmsg([b'x'], [(socket.IPPROTO_IPV6, socket.IPV6_PKTINFO,\n"
    "        packed6 + struct.pack('i', 0))], 0, ('::', 9000))\n"
    "attempt('pktinfo v6', act)\n";

const char* const by_device =
    "import errno, socket, sys\n"
    "for host in sys.argv[1:]:\n"
    "    for device in (b'eth0', b'lo'):\n"
    "        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):\n"
    "            s = socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET, kind)\n"
    "            s.settimeout(2)\n"
    "            try:\n"
    "                s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device)\n"
    "                s.connect((host, 9000)); s.send(b'ping!'); print(host, device.decode(), kind.name, "
    "s.recv(5))\n"
    "            except OSError as error:\n"
    "                print(host, device.decode(), kind.name, errno.errorcode.get(error.errno, error))\n";

arrived outside() {
    world& net = cage_machine::here().net();
    arrived sum;
    for (const char* space : {"machine", "lan", "mesh"}) {
        const arrived there = net.count(space, "", "", 9000);
        sum.packets += there.packets;
        sum.bytes += there.bytes;
        sum.syns += there.syns;
    }
    return sum;
}

std::vector<std::string> with(std::vector<std::string> argv, std::initializer_list<const char*> more) {
    argv.insert(argv.end(), more.begin(), more.end());
    return argv;
}

TEST_CASE("a source address that is the target's does not make the zero address lead there") {
    cage_machine& machine = cage_machine::here();
    for (const cage_kind& kind : {sealed(), sealed().with_open_relay(), caged(),
                                  sealed().without(guard::destinations).with_open_relay()}) {
        machine.net().reset();
        const probed tried = machine.run(kind, python(by_source));
        CAPTURE(tried.output, tried.errors);
        CHECK(tried.status == 0); // every way was tried
        CHECK(tried.says("pktinfo v6"));
        CHECK(outside() == nothing);
    }
}

TEST_CASE("a socket that is bound to a device is judged as any other") {
    cage_machine& machine = cage_machine::here();
    const auto local = with(python(by_device), {"192.168.1.10", "2a01:4f8:77:1::10"});
    machine.net().reset();
    const probed refused = machine.run(sealed().with_open_relay(), local); // the guard alone
    CAPTURE(refused.output, refused.errors);
    CHECK(refused.denials.size() == 8);
    CHECK_FALSE(refused.says("b'"));
    const probed by_relay = machine.run(sealed().without(guard::destinations), local); // the relay alone
    CAPTURE(by_relay.output);
    CHECK_FALSE(by_relay.says("b'"));
    CHECK(outside() == nothing);

    const probed reached = machine.run(sealed().without(guard::destinations).with_open_relay(),
                                       local); // neither
    CAPTURE(reached.output, reached.errors);
    CHECK(reached.says(
        "192.168.1.10 eth0 SOCK_STREAM b'ping!'")); // the options guard unties it, or it would hang
    CHECK(reached.says("2a01:4f8:77:1::10 eth0 SOCK_DGRAM b'ping!'"));
    CHECK(outside().bytes > 0);
    const probed allowed = machine.run(
        sealed(), with(python(by_device), {"93.184.216.34", "2606:2800:220:1::34"})); // the twin
    CAPTURE(allowed.output, allowed.errors);
    for (const char* host : {"93.184.216.34", "2606:2800:220:1::34"})
        for (const char* kind : {"SOCK_STREAM", "SOCK_DGRAM"})
            CHECK(allowed.says(std::string(host) + " eth0 " + kind + " b'ping!'"));
}

} // namespace
} // namespace pinfold::test
