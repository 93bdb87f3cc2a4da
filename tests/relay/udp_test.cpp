#include "relay/sockets.hpp"
#include "spec/cage_spec.hpp"
#include "support/catch.hpp"

#include <netinet/icmp6.h>
#include <netinet/ip_icmp.h>

namespace pinfold::test {

namespace {

void require_root() {
    if (::geteuid() != 0) SKIP("root, to make namespaces and load the steering programs");
}

struct caged_world {
    explicit caged_world(std::vector<std::string> resolvers = {}, relay_limits limits = {})
        : relay(world, {{.mode = cage_mode::caged, .resolvers = std::move(resolvers)}},
                machine_destinations(), limits) {}
    relay_world world = [] {
        require_root();
        return relay_world();
    }();
    relay_process relay;
};

struct datagram {
    std::string text;
    endpoint from;
};

datagram hear_from(const unique_fd& socket) {
    std::string text(70000, '\0');
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    const ssize_t got = ::recvfrom(socket.get(), text.data(), text.size(), 0,
                                   reinterpret_cast<sockaddr*>(&from), &size);
    if (got < 0) return {fmt::format("errno {}", errno), {}};
    text.resize(static_cast<std::size_t>(got));
    return {text, endpoint::from(from, size)};
}

bool say_to(const unique_fd& socket, std::string_view text, const endpoint& to) {
    sockaddr_storage name{};
    const socklen_t size = to.write(name);
    return ::sendto(socket.get(), text.data(), text.size(), MSG_NOSIGNAL,
                    reinterpret_cast<const sockaddr*>(&name), size) >= 0;
}

// Answers each datagram with the same one, so many times.
void echo(const unique_fd& server, int times) {
    for (int i = 0; i < times; ++i) {
        const datagram got = hear_from(server);
        if (got.from.family == 0) return;
        say_to(server, got.text, got.from);
    }
}

} // namespace

TEST_CASE("UDP passes connected and not, and the answer comes from the address that was asked") {
    const caged_world it;
    for (const endpoint& to : {at(place::web4, 4000), at(place::web6, 4000)}) {
        const unique_fd server = bind_to(it.world.far(), SOCK_DGRAM, to);
        const unique_fd unconnected = make_socket(it.relay.cage(), to.family, SOCK_DGRAM);
        datagram answer;
        for (int tries = 0; tries < 3 && answer.text != "one";
             ++tries) { // a busy machine may lose a datagram
            CHECK(say_to(unconnected, "one", to));
            echo(server, 1);
            answer = hear_from(unconnected);
        }
        CHECK(answer.text == "one");
        CHECK(answer.from == to);

        const unique_fd connected = make_socket(it.relay.cage(), to.family, SOCK_DGRAM);
        REQUIRE(connect_to(connected.get(), to) == 0);
        CHECK(say(connected, "two"));
        echo(server, 1);
        CHECK(hear(connected) == "two");
    }
    const unique_fd server = bind_to(it.world.far(), SOCK_DGRAM, at(place::web4, 4001));
    const unique_fd mapped = make_socket(it.relay.cage(), AF_INET6, SOCK_DGRAM);
    REQUIRE(connect_mapped(mapped.get(), at(place::web4, 4001)) == 0);
    CHECK(say(mapped, "three"));
    echo(server, 1);
    CHECK(hear(mapped) == "three");
    CHECK(it.relay.figures().udp_flows == 5);
}

TEST_CASE("a datagram to a closed port ends in ECONNREFUSED") {
    const caged_world it;
    for (const char* host : {place::web4, place::web6}) {
        const endpoint to = at(host, 4002);
        const unique_fd client = make_socket(it.relay.cage(), to.family, SOCK_DGRAM);
        REQUIRE(connect_to(client.get(), to) == 0);
        CHECK(say(client, "anybody?"));
        CHECK(hear(client) == fmt::format("errno {}", ECONNREFUSED));
        CHECK(eventually([&] { return it.relay.figures().udp_flows == 0; }));
    }
}

TEST_CASE("a refused datagram is answered with an error, not with silence") {
    require_root();
    relay_world world;
    relay_process relay(world, {{.mode = cage_mode::sealed}});
    const unique_fd client = make_socket(relay.cage(), AF_INET, SOCK_DGRAM);
    REQUIRE(connect_to(client.get(), at(place::lan4, 4000)) == 0);
    CHECK(say(client, "hello"));
    CHECK(hear(client) == fmt::format("errno {}", EHOSTUNREACH));
    CHECK(relay.figures().refused == 1);
}

TEST_CASE("datagrams pass whole up to the largest that the tun takes") {
    const caged_world it;
    const struct {
        const char* host;
        std::size_t largest;
    } families[] = {{place::web4, 65492}, {place::web6, 65472}};
    for (const auto& [host, largest] : families) {
        const endpoint to = at(host, 4003);
        const unique_fd server = bind_to(it.world.far(), SOCK_DGRAM, to);
        const unique_fd client = make_socket(it.relay.cage(), to.family, SOCK_DGRAM);
        for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{2000}, largest}) {
            std::string text(size, 'd');
            if (size > 0) text.back() = 'e';
            CHECK(say_to(client, text, to));
            echo(server, 1);
            CHECK(hear_from(client).text == text);
        }
    }
}

TEST_CASE("datagrams that were queued while the relay was busy all arrive") {
    const caged_world it;
    const endpoint to = at(place::web4, 4004);
    const unique_fd server = bind_to(it.world.far(), SOCK_DGRAM, to);
    const int room = 4 << 20;
    ::setsockopt(server.get(), SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
    const unique_fd client = make_socket(it.relay.cage(), AF_INET, SOCK_DGRAM);
    it.relay.pause(true);
    for (int i = 0; i < 300; ++i) CHECK(say_to(client, std::to_string(i), to));
    it.relay.pause(false);
    for (int i = 0; i < 300; ++i) CHECK(hear(server) == std::to_string(i));
}

TEST_CASE("an echo request is answered by the host that was asked, with the identifier that was sent") {
    const caged_world it;
    for (const char* host : {place::web4, place::web6}) {
        const endpoint to = at(host, 0);
        const bool v4 = to.is_v4();
        const int protocol = v4 ? int{IPPROTO_ICMP} : int{IPPROTO_ICMPV6};
        const unique_fd ping = make_socket(it.relay.cage(), to.family, SOCK_DGRAM, protocol);
        std::string request(8, '\0');
        request[0] = static_cast<char>(v4 ? ICMP_ECHO : ICMP6_ECHO_REQUEST);
        request[7] = 7; // the sequence number
        request += "payload";
        for (int i = 0; i < 2; ++i) {
            CHECK(say_to(ping, request, to));
            const datagram answer = hear_from(
                ping); // the kernel hands it out by its identifier and its checksum
            REQUIRE(answer.text.size() == request.size());
            CHECK(answer.text[0] == static_cast<char>(v4 ? ICMP_ECHOREPLY : ICMP6_ECHO_REPLY));
            CHECK(answer.text.substr(6) == request.substr(6));
            CHECK(answer.from.address == to.address);
        }
    }
    CHECK(it.relay.figures().udp_flows == 2);
}

TEST_CASE("both answers to two questions on one socket come, and then the flow is over") {
    const caged_world it;
    const endpoint to = at(place::web4, 53);
    const unique_fd server = bind_to(it.world.far(), SOCK_DGRAM, to);
    const unique_fd client = make_socket(it.relay.cage(), AF_INET, SOCK_DGRAM);
    REQUIRE(connect_to(client.get(), to) == 0);
    CHECK(say(client, "A?"));
    CHECK(say(client, "AAAA?"));
    echo(server, 1);
    CHECK(hear(client) == "A?");
    CHECK(it.relay.figures().udp_flows == 1);
    echo(server, 1);
    CHECK(hear(client) == "AAAA?");
    CHECK(eventually([&] { return it.relay.figures().udp_flows == 0; }));
}

TEST_CASE("idle flows end by themselves") {
    const caged_world it({}, {.udp_idle = std::chrono::seconds(1), .dns_idle = std::chrono::seconds(1)});
    const unique_fd server = bind_to(it.world.far(), SOCK_DGRAM, at(place::web4, 4005));
    const unique_fd dns = bind_to(it.world.far(), SOCK_DGRAM, at(place::web4, 53));
    const unique_fd client = make_socket(it.relay.cage(), AF_INET, SOCK_DGRAM);
    CHECK(say_to(client, "x", at(place::web4, 4005)));
    CHECK(say_to(client, "x", at(place::web4, 53)));
    CHECK(is_there(server));
    CHECK(is_there(dns));
    CHECK(it.relay.figures().udp_flows == 2);
    const auto fds = it.relay.open_fds();
    CHECK(eventually([&] { return it.relay.figures().udp_flows == 0; }));
    CHECK(it.relay.open_fds() == fds - 2);
}

TEST_CASE("at the limit the oldest idle flow makes room") {
    const caged_world it({}, {.udp_flows = 4});
    const auto before = it.relay.open_fds();
    const unique_fd server = bind_to(it.world.far(), SOCK_DGRAM, at(place::web4, 4006));
    std::vector<unique_fd> clients;
    for (int i = 0; i < 20; ++i) {
        clients.push_back(make_socket(it.relay.cage(), AF_INET, SOCK_DGRAM));
        CHECK(say_to(clients.back(), "x", at(place::web4, 4006)));
        CHECK(hear(server) == "x");
        CHECK(it.relay.figures().udp_flows <= 4);
    }
    CHECK(eventually([&] { return it.relay.open_fds() <= before + 4; }));
}

} // namespace pinfold::test
