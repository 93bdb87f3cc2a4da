#include "agent/relay/packet.hpp"
#include "agent/relay/packet_headers.hpp"
#include "pinfold/denial.h"
#include "pinfold/network.h"
#include "pinfold/policy.h"
#include "relay/sockets.hpp"
#include "spec/cage_spec.hpp"
#include "support/catch.hpp"

#include <linux/if_ether.h>
#include <linux/if_packet.h>

// No guard is attached to these cages: what is refused here is refused by the relay alone.
namespace pinfold::test {

namespace {

constexpr std::uint64_t caged = 1, sealed = 2;

std::uint32_t allow_all(cage_mode, int, const endpoint&) {
    return 0;
}

struct both_modes {
    explicit both_modes(const destination_check& check = machine_destinations())
        : relay(world, {{.id = caged, .mode = cage_mode::caged}, {.id = sealed, .mode = cage_mode::sealed}},
                check) {}

    relay_world world;
    relay_process relay;
};

// 0 and what arrived at the listener, or the errno of connect(); -1 = something arrived although it was refused.
int try_tcp(const both_modes& it, std::uint64_t cage, const unique_fd& at_space, const endpoint& to) {
    const unique_fd listener = bind_to(at_space, SOCK_STREAM, to);
    const unique_fd client = make_socket(it.relay.cage(cage), to.family, SOCK_STREAM);
    if (const int error = connect_to(client.get(), to)) return is_there(listener, 50) ? -1 : error;
    const unique_fd server = accept_from(listener);
    say(client, "x");
    return hear(server) == "x" ? 0 : -1;
}

// Whether a datagram arrived.
bool try_udp(const both_modes& it, std::uint64_t cage, const unique_fd& at_space, const endpoint& to) {
    const unique_fd server = bind_to(at_space, SOCK_DGRAM, to);
    const unique_fd client = make_socket(it.relay.cage(cage), to.family, SOCK_DGRAM);
    if (connect_to(client.get(), to) != 0 || !say(client, "x")) return false;
    return is_there(server, 200) && hear(server) == "x";
}

void require_root() {
    if (::geteuid() != 0) SKIP("root, to make namespaces and load the steering programs");
}

} // namespace

TEST_CASE("a sealed cage reaches the internet and nothing local, a caged one the local network, too") {
    require_root();
    const both_modes it;
    const auto& far = it.world.far();
    const auto& near = it.world.near();
    CHECK(try_tcp(it, sealed, far, at(place::web4, 80)) == 0);
    CHECK(try_tcp(it, sealed, far, at(place::web6, 80)) == 0);
    CHECK(try_udp(it, sealed, far, at(place::web4, 80)));
    CHECK(try_udp(it, sealed, far, at(place::web6, 80)));
    struct local_place {
        const char* name;
        const unique_fd& space;
    };
    for (const auto& [name, space] :
         {local_place{place::lan4, far}, local_place{place::mesh4, far}, local_place{place::machine4, near},
          local_place{place::machine_public4, near}}) {
        INFO(name);
        CHECK(try_tcp(it, sealed, space, at(name, 81)) == EHOSTUNREACH);
        CHECK(try_tcp(it, caged, space, at(name, 81)) == 0);
        CHECK_FALSE(try_udp(it, sealed, space, at(name, 81)));
        CHECK(try_udp(it, caged, space, at(name, 81)));
    }
    CHECK(try_tcp(it, sealed, far, at(place::lan6, 81)) == EACCES);
    CHECK(try_tcp(it, caged, far, at(place::lan6, 81)) == 0);
}

TEST_CASE("without the check a sealed cage would reach what is local") { // the mutation of the test above
    require_root();
    const both_modes it(allow_all);
    CHECK(try_tcp(it, sealed, it.world.far(), at(place::lan4, 81)) == 0);
    CHECK(try_tcp(it, sealed, it.world.far(), at(place::mesh4, 81)) == 0);
    CHECK(try_tcp(it, sealed, it.world.near(), at(place::machine_public4, 81)) == 0);
    CHECK(try_udp(it, sealed, it.world.far(), at(place::lan6, 81)));
}

TEST_CASE("a route that appears makes its destinations local at once") {
    require_root();
    const both_modes it;
    const endpoint web = at(place::web4, 80);
    CHECK(try_tcp(it, sealed, it.world.far(), web) == 0);
    const auto run = [&](const char* command) {
        return inside(it.world.near(), [&] { return std::system(command); });
    };
    REQUIRE(run("ip route add 93.184.0.0/16 via 10.77.0.2") == 0);
    CHECK(try_tcp(it, sealed, it.world.far(), web) == EHOSTUNREACH);
    CHECK(try_tcp(it, caged, it.world.far(), web) == 0);
    REQUIRE(run("ip route del 93.184.0.0/16 && ip route add 0.0.0.0/1 via 10.77.0.2") == 0);
    CHECK(try_tcp(it, sealed, it.world.far(), web) == 0); // a half of everything is a default route
}

TEST_CASE("the agents' port is closed at any address, in both modes") {
    require_root();
    const both_modes it;
    for (const std::uint64_t cage : {caged, sealed}) {
        CHECK(try_tcp(it, cage, it.world.far(), at(place::web4, PINFOLD_AGENT_PORT)) == EHOSTUNREACH);
        CHECK(try_tcp(it, cage, it.world.far(), at(place::web6, PINFOLD_AGENT_PORT)) == EACCES);
        CHECK(try_udp(it, cage, it.world.far(), at(place::web4, PINFOLD_AGENT_PORT))); // it is TCP's
    }
    const both_modes open(allow_all);
    CHECK(try_tcp(open, caged, open.world.far(), at(place::web4, PINFOLD_AGENT_PORT)) == 0);
}

TEST_CASE("the machine's loopback is never dialled, whatever a packet looks like") {
    require_root();
    // Written into the tun's reading end by hand: a program in the cage cannot send these, root with a raw socket could.
    const auto packet_to = [](const endpoint& to) {
        const flow_key backwards{.protocol = IPPROTO_UDP,
                                 .source = to,
                                 .destination = to.is_v4() ? endpoint::v4(PINFOLD_OWN4, 4000)
                                                           : endpoint::v6(PINFOLD_OWN6_WORDS, 4000)};
        std::vector<std::byte> space(largest_packet);
        payload_room(space, backwards)[0] = std::byte{'x'};
        const buffer made = build_udp(space, backwards, 1);
        return std::vector<std::byte>(made.begin(), made.end());
    };
    // The check is the machine's own, and the mutation the one that allows all.
    for (const bool open : {false, true}) {
        relay_world world;
        const unique_fd sink = bind_to(world.near(), SOCK_DGRAM, at("127.0.0.1", 5353));
        relay_process relay(world, {{.mode = cage_mode::caged}},
                            open ? destination_check(allow_all) : machine_destinations());
        const unique_fd raw = make_socket(relay.cage(), AF_PACKET, SOCK_DGRAM);
        endpoint mapped = endpoint::v6({0, 0, 0xffff, 0x7f000001}, 5353);
        for (const endpoint& to : {at("127.0.0.1", 5353), mapped}) {
            const auto bytes = packet_to(to);
            sockaddr_ll device{};
            device.sll_family = AF_PACKET;
            device.sll_protocol = htons(to.is_v4() ? ETH_P_IP : ETH_P_IPV6);
            device.sll_ifindex = PINFOLD_TUN_IFINDEX;
            CHECK(::sendto(raw.get(), bytes.data(), bytes.size(), 0,
                           reinterpret_cast<const sockaddr*>(&device),
                           sizeof device) == static_cast<ssize_t>(bytes.size()));
            // IPV6_V6ONLY is the second line: with any check the mapped form arrives nowhere.
            CHECK(is_there(sink, 300) == (open && to.is_v4()));
            if (open && to.is_v4()) CHECK(hear(sink) == "x");
        }
        if (!open) CHECK(relay.figures().refused == 2);
    }
}

TEST_CASE("packets that are not the cage's own are dropped and counted") {
    require_root();
    relay_world world;
    relay_process relay(world, {{.mode = cage_mode::caged}});
    const unique_fd sink = bind_to(world.far(), SOCK_DGRAM, at(place::web4, 9000));
    const unique_fd raw = make_socket(relay.cage(), AF_PACKET, SOCK_DGRAM);
    const auto send_from = [&](std::uint32_t source) {
        const flow_key backwards{.protocol = IPPROTO_UDP,
                                 .source = at(place::web4, 9000),
                                 .destination = endpoint::v4(source, 4000)};
        std::vector<std::byte> space(largest_packet);
        const buffer made = build_udp(space, backwards, 1);
        sockaddr_ll device{};
        device.sll_family = AF_PACKET;
        device.sll_protocol = htons(ETH_P_IP);
        device.sll_ifindex = PINFOLD_TUN_IFINDEX;
        ::sendto(raw.get(), made.data(), made.size(), 0, reinterpret_cast<const sockaddr*>(&device),
                 sizeof device);
        return is_there(sink, 200);
    };
    const auto before = relay.figures().dropped;
    CHECK_FALSE(send_from(0x0a000001));
    CHECK(relay.figures().dropped == before + 1);
    CHECK(send_from(PINFOLD_OWN4)); // the twin
}

} // namespace pinfold::test
