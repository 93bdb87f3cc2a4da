#include "relay/sockets.hpp"
#include "support/catch.hpp"

#include "pinfold/network.h"
#include "spec/cage_spec.hpp"

namespace pinfold::test {

namespace {

void require_root() {
    if (::geteuid() != 0) SKIP("root, to make namespaces and load the steering programs");
}

struct caged_world {
    relay_world world = [] {
        require_root();
        return relay_world();
    }();
    relay_process relay{world, {{.mode = cage_mode::caged}}};
};

const endpoint web4 = at(place::web4, 80), web6 = at(place::web6, 80);

} // namespace

TEST_CASE("TCP reaches the address it asked for, and both ends are named truly") {
    const caged_world it;
    for (const endpoint& to : {web4, web6}) {
        const unique_fd listener = bind_to(it.world.far(), SOCK_STREAM, to);
        const both_ends ends = join(it.relay.cage(), listener, to);
        CHECK(name_of(ends.inside.get(), ::getpeername) == to);
        CHECK(name_of(ends.inside.get(), ::getsockname).address ==
              (to.is_v4() ? endpoint::v4(PINFOLD_OWN4, 0) : endpoint::v6(PINFOLD_OWN6_WORDS, 0)).address);
        CHECK(name_of(ends.outside.get(), ::getpeername).address ==
              at(to.is_v4() ? "10.77.0.1" : "fd77::1", 0).address);
        CHECK(say(ends.inside, "ping"));
        CHECK(hear(ends.outside) == "ping");
        CHECK(say(ends.outside, "pong"));
        CHECK(hear(ends.inside) == "pong");
    }
    CHECK(it.relay.figures().opened == 2);
}

TEST_CASE("a v4-mapped socket is IPv4 all the way") {
    const caged_world it;
    const unique_fd listener = bind_to(it.world.far(), SOCK_STREAM, web4);
    const unique_fd client = make_socket(it.relay.cage(), AF_INET6, SOCK_STREAM);
    REQUIRE(connect_mapped(client.get(), web4) == 0);
    const unique_fd server = accept_from(listener);
    CHECK(name_of(client.get(), ::getpeername) == web4);
    CHECK(say(client, "mapped"));
    CHECK(hear(server) == "mapped");
}

TEST_CASE("connect ends as it would without a cage") {
    const caged_world it;
    const auto result = [&](const endpoint& to) {
        return connect_to(make_socket(it.relay.cage(), to.family, SOCK_STREAM).get(), to);
    };
    CHECK(result(web4) == ECONNREFUSED);
    CHECK(result(web6) == ECONNREFUSED);
    CHECK(result(at(place::unreachable, 80)) == EHOSTUNREACH);
    CHECK(result(at(place::no_net, 80)) == ENETUNREACH);
    CHECK(it.relay.figures().failed == 4);
}

TEST_CASE("a connect that nobody answers goes on until its own time-out") {
    const caged_world it;
    const unique_fd client = make_socket(it.relay.cage(), AF_INET, SOCK_STREAM);
    limit_time(client.get(), std::chrono::milliseconds(1500));
    CHECK(connect_to(client.get(), at(place::black_hole, 80)) == EINPROGRESS); // SO_SNDTIMEO's way to say so
    CHECK(it.relay.figures().pending == 1);
}

TEST_CASE("half-close keeps the other direction open, and a late tail arrives") {
    const caged_world it;
    const unique_fd listener = bind_to(it.world.far(), SOCK_STREAM, web4);
    const both_ends ends = join(it.relay.cage(), listener, web4);
    std::string sent(1 << 20, '\0');
    for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 31 >> 3);
    std::thread client([&] {
        say(ends.inside, sent);
        ::shutdown(ends.inside.get(), SHUT_WR);
    });
    const std::string received = hear_all(ends.outside, sent.size() + 1);
    client.join();
    CHECK(received == sent);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::thread server([&] {
        say(ends.outside, sent);
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        say(ends.outside, "tail");
        ::shutdown(ends.outside.get(), SHUT_WR);
    });
    const std::string answer = hear_all(ends.inside, sent.size() + 5);
    server.join();
    CHECK(answer == sent + "tail");
    CHECK(hear(ends.inside).empty()); // a clean end
    CHECK(eventually([&] { return it.relay.figures().tcp_flows == 0; }));
    CHECK(it.relay.figures().bytes_up == sent.size());
    CHECK(it.relay.figures().bytes_down == sent.size() + 4);
}

TEST_CASE("a reset passes in both directions") {
    const caged_world it;
    const unique_fd listener = bind_to(it.world.far(), SOCK_STREAM, web4);
    for (const bool from_inside : {true, false}) {
        both_ends ends = join(it.relay.cage(), listener, web4);
        unique_fd& resetting = from_inside ? ends.inside : ends.outside;
        const unique_fd& other = from_inside ? ends.outside : ends.inside;
        reset_on_close(resetting);
        resetting.reset();
        CHECK(hear(other) == fmt::format("errno {}", ECONNRESET));
    }
    CHECK(eventually([&] { return it.relay.figures().tcp_flows == 0; }));
}

TEST_CASE("a receiver that does not read stops its sender, and nothing is lost") {
    const caged_world it;
    const unique_fd listener = bind_to(it.world.far(), SOCK_STREAM, web4);
    const both_ends ends = join(it.relay.cage(), listener, web4);
    std::string block(1 << 20, 'x');
    std::size_t sent = 0;
    limit_time(ends.inside.get(), std::chrono::milliseconds(300));
    const std::size_t before = it.relay.proportional_bytes();
    for (;;) {
        const ssize_t size = ::send(ends.inside.get(), block.data(), block.size(), MSG_NOSIGNAL);
        if (size <= 0) break;
        sent += static_cast<std::size_t>(size);
        REQUIRE(sent < std::size_t{1} << 30);
    }
    CHECK(it.relay.proportional_bytes() < before + (std::size_t{2} << 20));
    ::shutdown(ends.inside.get(), SHUT_WR);
    CHECK(hear_all(ends.outside, sent + 1).size() == sent);
}

TEST_CASE("2,000 connections one after the other pass without a stall") {
    const caged_world it;
    const unique_fd listener = bind_to(it.world.far(), SOCK_STREAM, web4);
    int slow = 0, failed = 0;
    inside(it.relay.cage(), [&] {
        for (int i = 0; i < 2000; ++i) {
            const auto begin = std::chrono::steady_clock::now();
            const unique_fd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
            reset_on_close(client); // the port is free again at once, and soon used anew
            if (connect_to(client.get(), web4) != 0) ++failed;
            if (i % 2 == 0) accept_from(listener); // every second one is reset before anybody accepts it
            if (std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(500)) ++slow;
        }
    });
    CHECK(failed == 0);
    CHECK(slow == 0);
    CHECK(eventually([&] { return it.relay.figures().tcp_flows + it.relay.figures().pending == 0; },
                     std::chrono::seconds(8)));
}

TEST_CASE("200 connections at the same time pass") {
    const caged_world it;
    const unique_fd listener = bind_to(it.world.far(), SOCK_STREAM, web6);
    std::vector<unique_fd> clients, servers;
    for (int i = 0; i < 200; ++i) {
        clients.push_back(make_socket(it.relay.cage(), AF_INET6, SOCK_STREAM | SOCK_NONBLOCK));
        CHECK(connect_to(clients.back().get(), web6) == EINPROGRESS);
    }
    for (const unique_fd& client : clients) {
        pollfd waiting{.fd = client.get(), .events = POLLOUT, .revents = 0};
        CHECK(::poll(&waiting, 1, 900) == 1); // less than a SYN's first repetition
        CHECK(say(client, "x"));
    }
    for (int i = 0; i < 200; ++i) {
        servers.push_back(accept_from(listener));
        CHECK(hear(servers.back()) == "x");
    }
    CHECK(it.relay.figures().tcp_flows == 200);
}

TEST_CASE("a SYN of a killed relay's connection ends in a reset, never in a clean end") {
    caged_world it;
    const unique_fd listener = bind_to(it.world.far(), SOCK_STREAM, web4);
    const both_ends ends = join(it.relay.cage(), listener, web4);
    CHECK(say(ends.outside, "half an answer"));
    CHECK(hear(ends.inside) == "half an answer");
    it.relay.kill();
    CHECK(hear(ends.inside) == fmt::format("errno {}", ECONNRESET));
    CHECK(hear(ends.outside) == fmt::format("errno {}", ECONNRESET));
}

} // namespace pinfold::test
