// While a cage runs, a VPN comes and goes: what was the internet is local from then on, and the internet again afterwards.
#include "cagebreak/refusal.hpp"

#include <array>
#include <cerrno>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>
#include <utility>

namespace pinfold::test {
namespace {

constexpr const char* address4 = "198.51.100.7";
constexpr const char* address6 = "2a02:db8:51::7";

// An address that the internet has, and a mesh peer too: which of them answers is a matter of the machine's routes.
class two_places {
public:
    two_places() {
        // Only an address of the link itself answers a neighbour's solicitation.
        for (const auto& [space, link] : places) {
            net().run(space, "ip address replace 198.51.100.7/32 dev lo");
            net().run(space, std::string("ip address replace 2a02:db8:51::7/128 nodad dev ") + link);
        }
    }
    two_places(const two_places&) = delete;
    two_places& operator=(const two_places&) = delete;
    ~two_places() {
        try {
            vpn_down();
            interface_down();
            for (const auto& [space, link] : places) {
                net().run(space, "ip address delete 198.51.100.7/32 dev lo");
                net().run(space, std::string("ip address delete 2a02:db8:51::7/128 dev ") + link);
            }
        } catch (const std::exception& error) {
            UNSCOPED_INFO(error.what());
        }
    }
    void vpn_up() {
        net().run("machine", "ip route replace 198.51.100.0/24 via 100.64.0.2");
        net().run("machine", "ip route replace 2a02:db8:51::/48 via fd5e:ca9e:7::2");
        up_ = true;
    }
    void vpn_down() {
        if (!std::exchange(up_, false)) return;
        net().run("machine", "ip route delete 198.51.100.0/24");
        net().run("machine", "ip route delete 2a02:db8:51::/48");
    }

    // An interface of another mesh, with addresses of its own: what is on it is local, no route was ever written.
    void interface_up() {
        net().run("machine", "ip link add link mesh0 name mesh9 type macvlan mode bridge");
        interface_ = true;
        net().run("machine", "ip address add 198.51.100.1/24 dev mesh9");
        net().run("machine", "ip address add 2a02:db8:51::1/48 dev mesh9 nodad");
        net().run("machine", "ip link set mesh9 up");
    }
    void interface_down() {
        if (std::exchange(interface_, false)) net().run("machine", "ip link delete mesh9");
    }

private:
    static constexpr std::pair<const char*, const char*> places[] = {{"internet", "lo"}, {"mesh", "mesh0"}};
    static world& net() { return cage_machine::here().net(); }
    bool up_ = false;
    bool interface_ = false;
};

// Connects over TCP and sends a datagram, to both addresses; a line each.
std::vector<std::string> try_all() {
    return python("import socket, errno\n"
                  "for host in ('198.51.100.7', '2a02:db8:51::7'):\n"
                  "    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):\n"
                  "        family = socket.AF_INET6 if ':' in host else socket.AF_INET\n"
                  "        s = socket.socket(family, kind)\n"
                  "        s.settimeout(5)\n"
                  "        try:\n"
                  "            s.connect((host, 9000))\n"
                  "            s.send(b'ping!')\n"
                  "            print(host, kind.name, s.recv(5))\n"
                  "        except OSError as error:\n"
                  "            print(host, kind.name, errno.errorcode.get(error.errno, error))\n");
}

arrived at_mesh() {
    world& net = cage_machine::here().net();
    arrived sum = net.count("mesh", "", address4);
    const arrived more = net.count("mesh", "", address6);
    sum.packets += more.packets;
    sum.bytes += more.bytes;
    sum.syns += more.syns;
    return sum;
}

void all_lines(const probed& tried, const std::string& end) {
    CAPTURE(tried.output, tried.errors);
    for (const char* host : {address4, address6})
        for (const char* kind : {"SOCK_STREAM", "SOCK_DGRAM"})
            CHECK(tried.says(fmt::format("{} {} {}", host, kind, end)));
}

TEST_CASE("a route that comes closes its prefix to a sealed cage that runs, and opens it when it goes") {
    cage_machine& machine = cage_machine::here();
    two_places places;
    machine.refresh_routes();
    const auto cage = machine.start(sealed().with_open_relay(), {"sleep", "120"}); // the guard alone
    all_lines(cage->enter(try_all()), "b'ping!'");

    places.vpn_up();
    machine.refresh_routes();
    machine.net().reset();
    const probed refused = cage->enter(try_all());
    all_lines(refused, "EACCES");
    CHECK(at_mesh() == nothing);
    REQUIRE_FALSE(refused.denials.empty());
    for (const pinfold_denial& denial : refused.denials) CHECK(denial.rule == PINFOLD_RULE_ROUTE);
    all_lines(machine.start(caged(), {"sleep", "120"})->enter(try_all()),
              "b'ping!'"); // a caged cage may, and reaches the mesh
    CHECK(at_mesh().packets > 0);

    places.vpn_down();
    machine.refresh_routes();
    machine.net().reset();
    all_lines(cage->enter(try_all()), "b'ping!'");
    CHECK(at_mesh() == nothing);
}

TEST_CASE("the relay sees a route by itself, before the keeper has told the guards of it") {
    cage_machine& machine = cage_machine::here();
    two_places places;
    machine.refresh_routes();
    const auto cage = machine.start(sealed(), {"sleep", "120"});
    const auto open = machine.start(sealed().with_open_relay(), {"sleep", "120"});
    all_lines(cage->enter(try_all()), "b'ping!'");

    places.vpn_up(); // and no refresh_routes()
    machine.net().reset();
    const probed refused = cage->enter(try_all());
    all_lines(refused, "E");
    CHECK(refused.denials.empty());
    CHECK(at_mesh() == nothing);
    all_lines(open->enter(try_all()), "b'ping!'"); // the mutation
    CHECK(at_mesh().packets > 0);

    places.vpn_down();
    machine.net().reset();
    all_lines(cage->enter(try_all()), "b'ping!'");
    CHECK(at_mesh() == nothing);
}

// What makes it local within a moment: the kernel tells the keeper before whoever made the route goes on, and the keeper
// does nothing else between being told and closing it. So it is no matter of time, and none is measured.
TEST_CASE("the keeper is told of a mesh interface and of a VPN's route before the one who made it goes on") {
    cage_machine& machine = cage_machine::here();
    two_places places;
    routes follower; // as the keeper's loop has one
    const auto is_told = [&follower] {
        pollfd news{.fd = follower.fd(), .events = POLLIN, .revents = 0};
        return ::poll(&news, 1, 0) == 1;
    };
    const auto next_turn = [&] { machine.guard_programs().set_local_prefixes(follower.refresh()); };
    const auto cage = machine.start(sealed().with_open_relay(), {"sleep", "120"});
    struct change {
        void (two_places::*up)();
        void (two_places::*down)();
    };
    for (const change& each : {change{&two_places::interface_up, &two_places::interface_down},
                               change{&two_places::vpn_up, &two_places::vpn_down}}) {
        next_turn();
        while (is_told()) next_turn();
        all_lines(cage->enter(try_all()), "b'ping!'"); // the twin: it is the internet
        CHECK_FALSE(is_told());
        (places.*each.up)();
        CHECK(is_told());
        machine.net().reset();
        const cage_kind open = sealed().with_open_relay();
        all_lines(machine.start(open, {"sleep", "120"})->enter(try_all()),
                  "b'ping!'"); // not yet its turn: it does arrive
        CHECK(at_mesh().packets > 0);
        next_turn();
        machine.net().reset();
        all_lines(cage->enter(try_all()), "EACCES");
        CHECK(at_mesh() == nothing);
        (places.*each.down)();
        CHECK(is_told());
        next_turn();
    }
    machine.refresh_routes();
}

// The machine's kernel takes what is open along to the new route, so what was judged once must be judged again.
TEST_CASE("a socket that was open before a route came sends nothing along it") {
    cage_machine& machine = cage_machine::here();
    two_places places;
    machine.refresh_routes();
    const std::string code =
        "import os, socket, time\n"
        "kept = []\n"
        "for host in ('198.51.100.7', '2a02:db8:51::7'):\n"
        "    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):\n"
        "        s = socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET, kind)\n"
        "        s.settimeout(5)\n"
        "        s.connect((host, 9000))\n"
        "        s.send(b'ping!')\n"
        "        s.recv(5)\n"
        "        kept.append(s)\n"
        "print('open', flush=True)\n"
        "while not os.path.exists('/tmp/go'): time.sleep(0.01)\n"
        "for turn in range(20):\n"
        "    for s in kept:\n"
        "        try: s.send(b'after the route')\n"
        "        except OSError as error: print(s.type.name, error.strerror)\n"
        "    time.sleep(0.02)\n";
    for (const bool judged : {true, false}) {
        CAPTURE(judged);
        const auto cage = machine.start(judged ? sealed() : sealed().with_open_relay(), python(code));
        std::array<char, 5> line{};
        REQUIRE(::read(cage->built().streams().output.get(), line.data(), line.size()) == 5);
        machine.net().reset();
        places.vpn_up();
        machine.refresh_routes();
        CHECK(cage->enter({"touch", "/tmp/go"}).status == 0);
        const probed ended = cage->finish();
        CAPTURE(ended.output, ended.errors);
        CHECK((at_mesh().bytes == 0) == judged); // the relay's own resets may arrive: they carry nothing
        CHECK(at_mesh().syns == 0);
        if (judged) CHECK(ended.says("SOCK_DGRAM Permission denied"));
        places.vpn_down();
        machine.refresh_routes();
    }
}

} // namespace
} // namespace pinfold::test
