#include "relay/sockets.hpp"
#include "spec/cage_spec.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <atomic>

namespace pinfold::test {

namespace {

relay_world root_world() {
    if (::geteuid() != 0) SKIP("root, to make namespaces and load the steering programs");
    return {};
}

const endpoint web4 = at(place::web4, 80);

} // namespace

TEST_CASE("at the limit of flows a connection fails at once, and there is room again when one ends") {
    relay_world world = root_world();
    relay_process relay(world, {{.mode = cage_mode::caged}}, machine_destinations(), {.tcp_flows = 3});
    const unique_fd listener = bind_to(world.far(), SOCK_STREAM, web4);
    std::vector<both_ends> open;
    for (int i = 0; i < 3; ++i) open.push_back(join(relay.cage(), listener, web4));
    const auto another = [&] {
        return connect_to(make_socket(relay.cage(), AF_INET, SOCK_STREAM).get(), web4);
    };
    CHECK(another() == EHOSTUNREACH);
    open.pop_back();
    CHECK(eventually([&] { return relay.figures().tcp_flows == 2; }));
    CHECK(another() == 0);
}

TEST_CASE("at the limit of held SYNs a new one waits until an abandoned one has made room") {
    relay_world world = root_world();
    relay_process relay(world, {{.mode = cage_mode::caged}}, machine_destinations(), {.pending = 2});
    const unique_fd listener = bind_to(world.far(), SOCK_STREAM, web4);
    for (int i = 0; i < 2; ++i) { // these give up in silence at once
        const unique_fd client = make_socket(relay.cage(), AF_INET, SOCK_STREAM | SOCK_NONBLOCK);
        CHECK(connect_to(client.get(), at(place::black_hole, 80)) == EINPROGRESS);
    }
    CHECK(eventually([&] { return relay.figures().pending == 2; }));
    CHECK(connect_to(make_socket(relay.cage(), AF_INET, SOCK_STREAM).get(), web4) ==
          0); // its kernel asks again
    CHECK(relay.figures().dropped > 0);
}

TEST_CASE("a connection that its application left before it was accepted is not kept") {
    relay_world world = root_world();
    relay_process relay(world, {{.mode = cage_mode::caged}}, machine_destinations(),
                        {.unaccepted = std::chrono::seconds(1)});
    const unique_fd listener = bind_to(world.far(), SOCK_STREAM, web4);
    // The application closes in SYN-SENT, which sends nothing, while the relay is asleep; the upstream then answers.
    relay.pause(true);
    {
        const unique_fd client = make_socket(relay.cage(), AF_INET, SOCK_STREAM | SOCK_NONBLOCK);
        CHECK(connect_to(client.get(), web4) == EINPROGRESS);
    }
    relay.pause(false);
    const unique_fd server = accept_from(listener);
    REQUIRE(server);
    CHECK(hear(server) == fmt::format("errno {}", ECONNRESET));
    CHECK(eventually([&] { return relay.figures().pending + relay.figures().tcp_flows == 0; }));
}

TEST_CASE("a cage that takes all the fds it can get leaves some for the next (B25)") {
    relay_world world = root_world();
    relay_process relay(world, {{.id = 1, .mode = cage_mode::caged}, {.id = 2, .mode = cage_mode::caged}},
                        machine_destinations(), {}, 128);
    const unique_fd listener = bind_to(world.far(), SOCK_STREAM, web4);
    std::vector<both_ends> greedy;
    try {
        for (int i = 0; i < 100; ++i) greedy.push_back(join(relay.cage(1), listener, web4));
    } catch (const std::system_error& error) {
        CHECK(error.code().value() == EHOSTUNREACH);
    }
    CHECK(greedy.size() > 10);
    CHECK(greedy.size() < 64);
    const both_ends modest = join(relay.cage(2), listener, web4);
    CHECK(say(modest.inside, "x"));
    CHECK(hear(modest.outside) == "x");
    const unique_fd sink = bind_to(world.far(), SOCK_DGRAM, at(place::web4, 4000));
    const unique_fd client = make_socket(relay.cage(2), AF_INET, SOCK_DGRAM);
    REQUIRE(connect_to(client.get(), at(place::web4, 4000)) == 0);
    CHECK(say(client, "y"));
    CHECK(hear(sink) == "y");
}

TEST_CASE("a cage that floods the relay does not stop another one's traffic (B25)") {
    relay_world world = root_world();
    relay_process relay(world, {{.id = 1, .mode = cage_mode::caged}, {.id = 2, .mode = cage_mode::caged}});
    const unique_fd listener = bind_to(world.far(), SOCK_STREAM, web4);
    std::atomic<bool> over = false;
    std::jthread flood([&] {
        inside(relay.cage(1), [&] {
            const unique_fd client(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
            for (std::uint16_t port = 1; !over; port = static_cast<std::uint16_t>(port % 60000 + 1)) {
                sockaddr_storage name{};
                const socklen_t size = at(place::web4, port).write(name);
                (void)::sendto(client.get(), "x", 1, 0, reinterpret_cast<const sockaddr*>(&name), size);
            }
        });
    });
    for (int i = 0; i < 50; ++i) {
        const both_ends ends = join(relay.cage(2), listener, web4);
        CHECK(say(ends.inside, "x"));
        CHECK(hear(ends.outside) == "x");
    }
    over = true;
}

TEST_CASE("a cage is removed while it is busy: its flows are reset, its fds closed, and others go on") {
    relay_world world = root_world();
    relay_process relay(world, {{.id = 1, .mode = cage_mode::caged}, {.id = 2, .mode = cage_mode::caged}});
    const unique_fd listener = bind_to(world.far(), SOCK_STREAM, web4);
    const unique_fd sink = bind_to(world.far(), SOCK_DGRAM, at(place::web4, 4000));
    const std::size_t fds = relay.open_fds();
    const both_ends busy = join(relay.cage(1), listener, web4);
    const both_ends idle = join(relay.cage(1), listener, web4);
    const both_ends other = join(relay.cage(2), listener, web4);
    const unique_fd waiting = make_socket(relay.cage(1), AF_INET, SOCK_STREAM | SOCK_NONBLOCK);
    CHECK(connect_to(waiting.get(), at(place::black_hole, 80)) == EINPROGRESS);
    const unique_fd datagrams = make_socket(relay.cage(1), AF_INET, SOCK_DGRAM);
    REQUIRE(connect_to(datagrams.get(), at(place::web4, 4000)) == 0);
    CHECK(say(datagrams, "x"));
    CHECK(hear(sink) == "x");
    std::jthread sending([&] {
        const std::string block(1 << 20, 'x');
        while (say(busy.inside, block)) continue;
    });
    hear_all(busy.outside, std::size_t{32} << 20);
    relay.remove(1);
    while (!hear(busy.outside).starts_with("errno")) continue;
    CHECK(hear(idle.outside) == fmt::format("errno {}", ECONNRESET));
    CHECK(hear(idle.inside) == fmt::format("errno {}", ECONNRESET));
    CHECK(eventually(
        [&] { return relay.open_fds() == fds; })); // less the cage's own two, more the other flow's two
    CHECK(say(other.inside, "still here"));
    CHECK(hear(other.outside) == "still here");
    CHECK(relay.figures(1).tcp_flows == 0);
    CHECK(relay.stop() == 0);
}

TEST_CASE("an idle relay is never woken, though connections and flows are open") {
    relay_world world = root_world();
    relay_process relay(world, {{.mode = cage_mode::caged}});
    const unique_fd listener = bind_to(world.far(), SOCK_STREAM, web4);
    const both_ends ends = join(relay.cage(), listener, web4);
    CHECK(say(ends.inside, "x"));
    CHECK(hear(ends.outside) == "x");
    CHECK(eventually([&] { return relay.figures().tcp_flows == 1; }));
    std::this_thread::sleep_for(relay_limits{}.unaccepted +
                                std::chrono::seconds(1)); // its last timer is behind it
    const auto before = relay.times_woken();
    std::this_thread::sleep_for(std::chrono::seconds(2));
    CHECK(relay.times_woken() == before);
    CHECK(say(ends.inside, "y"));
    CHECK(hear(ends.outside) == "y");
    CHECK(eventually([&] { return relay.times_woken() > before; })); // the figure can move
}

TEST_CASE("200 idle cages cost little memory") {
    relay_world world = root_world();
    const auto bytes = [&](std::uint64_t first, std::uint64_t count) {
        std::vector<served> cages;
        for (std::uint64_t id = first; id < first + count; ++id)
            cages.push_back({.id = id, .mode = cage_mode::caged});
        const relay_process relay(world, std::move(cages));
        (void)relay.figures(first);
        return relay.proportional_bytes();
    };
    const std::size_t one = bytes(1, 1), many = bytes(2, 200);
    WARN(fmt::format("PSS {} KiB with 1 cage, {} KiB with 200: {} KiB for each", one >> 10, many >> 10,
                     (many - std::min(one, many)) / 199 >> 10));
    CHECK(many - std::min(one, many) < 199 * (std::size_t{40} << 10));
}

} // namespace pinfold::test
