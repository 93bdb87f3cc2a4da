// A cage's network: where its TCP goes, and what does not reach the relay's listener.
#include "cage/netlink.hpp"
#include "cage/network.hpp"
#include "cagebreak/kernel_scratch.hpp"

#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <vector>

using namespace pinfold;
using namespace pinfold::test;

namespace {

std::vector<unsigned char> read_packet(const unique_fd& tun, int wait_ms = 2000) {
    pollfd ready = {.fd = tun.get(), .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, wait_ms) <= 0) return {};
    std::vector<unsigned char> packet(65536);
    const ssize_t got = ::read(tun.get(), packet.data(), packet.size());
    packet.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return packet;
}

bool is_syn(const std::vector<unsigned char>& packet) {
    if (packet.size() >= 40 && packet[0] == 0x45) return packet[9] == IPPROTO_TCP && packet[33] == 0x02;
    return packet.size() >= 60 && packet[0] >> 4 == 6 && packet[6] == IPPROTO_TCP && packet[53] == 0x02;
}

// A socket of the cage on its way to `target`.
unique_fd start_connect(const cage_network& cage, const address& target) {
    return inside(cage.space, [&] {
        unique_fd socket = socket_of(target.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK);
        if (::connect(socket.get(), target.get(), target.size) < 0 && errno != EINPROGRESS)
            fail_errno(errno, "connect to {}", target.text());
        return socket;
    });
}

int error_of(const unique_fd& socket) {
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    return error;
}

bool wait_for(const unique_fd& socket, short events, int wait_ms = 2000) {
    pollfd ready = {.fd = socket.get(), .events = events, .revents = 0};
    return ::poll(&ready, 1, wait_ms) > 0;
}

std::string own_name(const unique_fd& socket) {
    address name;
    name.size = sizeof name.storage;
    check(::getsockname(socket.get(), name.get(), &name.size), "getsockname");
    return name.text();
}

std::string peer_name(const unique_fd& socket) {
    address name;
    name.size = sizeof name.storage;
    check(::getpeername(socket.get(), name.get(), &name.size), "getpeername");
    return name.text();
}

std::string read_link(const char* path) {
    return std::filesystem::read_symlink(path).string();
}

} // namespace

TEST_CASE("a connection of a cage waits for the relay and ends at the listener under the address that was "
          "asked for") {
    const scratch_pins pins;
    steering steer(pins.path());
    const std::string home = read_link("/proc/thread-self/ns/net");
    const cage_network cage = steer.make(7);
    CHECK(read_link("/proc/thread-self/ns/net") == home);
    CHECK(std::filesystem::exists(pins.path() / "cages/0000000000000007/steer"));

    const auto [target, seen] = GENERATE(table<std::string, std::string>({
        {"93.184.216.34", "[::ffff:93.184.216.34]:443"},
        {"::ffff:93.184.216.34", "[::ffff:93.184.216.34]:443"},
        {"10.1.2.3", "[::ffff:10.1.2.3]:443"},
        {"192.0.0.1", "[::ffff:192.0.0.1]:443"},
        {"2606:4700:4700::1111", "[2606:4700:4700::1111]:443"},
        {"fd5e:ca9e:1::1", "[fd5e:ca9e:1::1]:443"},
    }));
    CAPTURE(target);
    const unique_fd client = start_connect(cage, at(target, 443));
    const auto syn = read_packet(cage.tun);
    REQUIRE(is_syn(syn));
    CHECK_FALSE(wait_for(client, POLLOUT, 50)); // the handshake has not begun
    CHECK_FALSE(wait_for(cage.listener, POLLIN, 0));

    REQUIRE(::write(cage.tun.get(), syn.data(), syn.size()) == static_cast<ssize_t>(syn.size()));
    REQUIRE(wait_for(client, POLLOUT));
    CHECK(error_of(client) == 0);
    REQUIRE(wait_for(cage.listener, POLLIN));
    const unique_fd accepted(::accept4(cage.listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    REQUIRE(accepted);
    CHECK(own_name(accepted) == seen);
    CHECK(peer_name(client) == at(target, 443).text());

    REQUIRE(::send(client.get(), "hello", 5, MSG_NOSIGNAL) == 5);
    char text[6] = {};
    REQUIRE(wait_for(accepted, POLLIN));
    CHECK(::recv(accepted.get(), text, 5, 0) == 5);
    CHECK(std::string(text) == "hello");
    CHECK(read_packet(cage.tun, 0).empty()); // data never touches the tun
    steer.release(7);
    CHECK_FALSE(std::filesystem::exists(pins.path() / "cages/0000000000000007"));
}

TEST_CASE("a cage has its own loopback, on all ports, and nothing of it comes by the tun") {
    const scratch_pins pins;
    steering steer(pins.path());
    const cage_network cage = steer.make(8);
    for (const char* host : {"127.0.0.1", "::1", "192.0.0.2", "fd5e:ca9e:1::2"}) {
        CAPTURE(host);
        const address target = at(host, 80); // ip_unprivileged_port_start
        const unique_fd server = inside(cage.space, [&] {
            unique_fd socket = socket_of(target.storage.ss_family, SOCK_STREAM);
            check(::bind(socket.get(), target.get(), target.size), "bind {}", target.text());
            check(::listen(socket.get(), 8), "listen");
            return socket;
        });
        const unique_fd client = start_connect(cage, target);
        REQUIRE(wait_for(client, POLLOUT));
        CHECK(error_of(client) == 0);
        CHECK(wait_for(server, POLLIN));
    }
    CHECK_FALSE(wait_for(cage.listener, POLLIN, 0));
    CHECK(read_packet(cage.tun, 0).empty());
    steer.release(8);
}

TEST_CASE("a SYN that the relay never saw does not reach its listener") {
    const scratch_pins pins;
    steering steer(pins.path());
    const cage_network cage = steer.make(9);
    // With an IP option a SYN is not diverted; let through, connect() would succeed and then be reset.
    const unique_fd client = inside(cage.space, [&] {
        unique_fd socket = socket_of(AF_INET, SOCK_STREAM | SOCK_NONBLOCK);
        const unsigned char options[4] = {1, 1, 1, 0};
        check(::setsockopt(socket.get(), IPPROTO_IP, IP_OPTIONS, options, sizeof options), "set IP options");
        const address target = at("93.184.216.34", 80);
        if (::connect(socket.get(), target.get(), target.size) < 0 && errno != EINPROGRESS &&
            errno != ECONNREFUSED)
            fail_errno(errno, "connect");
        return socket;
    });
    CHECK_FALSE(wait_for(client, POLLOUT, 200));
    CHECK_FALSE(wait_for(cage.listener, POLLIN, 0));
    CHECK(read_packet(cage.tun, 0).empty());
    steer.release(9);
}

TEST_CASE("UDP of a cage leaves by the tun as bare packets from its own address") {
    const scratch_pins pins;
    steering steer(pins.path());
    const cage_network cage = steer.make(10);
    const std::string host = GENERATE("1.1.1.1", "2606:4700:4700::1111", "::ffff:9.9.9.9");
    const address target = at(host, 53);
    const unique_fd socket = inside(cage.space,
                                    [&] { return socket_of(target.storage.ss_family, SOCK_DGRAM); });
    const std::string payload(4000, 'x'); // the big mtu keeps it whole
    REQUIRE(::sendto(socket.get(), payload.data(), payload.size(), 0, target.get(), target.size) == 4000);
    const auto packet = read_packet(cage.tun);
    const bool four = host != "2606:4700:4700::1111";
    REQUIRE(packet.size() == 4000 + 8 + (four ? 20 : 40));
    CHECK(packet[0] >> 4 == (four ? 4 : 6));
    if (four) CHECK(std::memcmp(packet.data() + 12, "\xc0\x00\x00\x02", 4) == 0);
    steer.release(10);
}

TEST_CASE("a program of a cage pings without privilege, and the echo leaves by the tun") {
    const scratch_pins pins;
    steering steer(pins.path());
    const cage_network cage = steer.make(12);
    const unique_fd socket = inside(cage.space, [&] { return socket_of(AF_INET, SOCK_DGRAM, IPPROTO_ICMP); });
    const unsigned char echo[8] = {8};
    const address target = at("1.1.1.1", 0);
    REQUIRE(::sendto(socket.get(), echo, sizeof echo, 0, target.get(), target.size) == sizeof echo);
    const auto packet = read_packet(cage.tun);
    REQUIRE(packet.size() == 28);
    CHECK(packet[9] == IPPROTO_ICMP);
    CHECK(packet[20] == 8);
    steer.release(12);
}

TEST_CASE("without the SYN program a cage is deaf: nothing reaches the listener") {
    const scratch_pins pins;
    steering steer(pins.path());
    const cage_network cage = steer.make(13);
    inside(cage.space, [] {
        netlink_batch batch;
        tcmsg qdisc = {};
        qdisc.tcm_ifindex = 1;
        qdisc.tcm_parent = TC_H_CLSACT;
        batch.begin(RTM_DELQDISC, 0, qdisc, "take the SYN program away");
        netlink_socket().carry_out(batch);
        return 0;
    });
    const unique_fd client = start_connect(cage, at("93.184.216.34", 443));
    CHECK_FALSE(wait_for(client, POLLOUT, 200));
    CHECK_FALSE(wait_for(cage.listener, POLLIN, 0));
    CHECK(read_packet(cage.tun, 0).empty());
    steer.release(13);
}

TEST_CASE("a network made ahead serves a cage as one made for it") {
    const scratch_pins pins;
    steering steer(pins.path());
    spare_network ahead = steer.prepare();
    const cage_network cage = steer.make(11, std::move(ahead));
    const unique_fd client = start_connect(cage, at("93.184.216.34", 443));
    CHECK(is_syn(read_packet(cage.tun)));
    steer.release(11);
}
