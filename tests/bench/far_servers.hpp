// What a benchmark of the relay talks to on the far side, and how: a sink, a source, and one who answers a byte.
#pragma once

#include "bench/figures.hpp"
#include "relay/sockets.hpp"

#include <csignal>
#include <functional>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <thread>
#include <vector>

namespace pinfold::bench {

inline constexpr std::uint16_t sink_port = 7001, source_port = 7002, answer_port = 7003;
inline constexpr int at_once = 32; // served by each listener
inline constexpr std::size_t block_size = 256 * 1024;

inline void each_connection(const unique_fd& listener, const std::function<void(const unique_fd&)>& serve) {
    for (;;) {
        const unique_fd client(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (client) serve(client);
    }
}

inline void discard(const unique_fd& client) {
    std::vector<char> block(block_size);
    while (::recv(client.get(), block.data(), block.size(), 0) > 0) continue;
}

inline void pour(const unique_fd& client) {
    const std::vector<char> block(block_size);
    while (::send(client.get(), block.data(), block.size(), MSG_NOSIGNAL) > 0) continue;
}

inline void answer(const unique_fd& client) {
    char byte = 0;
    const int on = 1;
    ::setsockopt(client.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (::recv(client.get(), &byte, 1, 0) == 1) (void)::send(client.get(), &byte, 1, MSG_NOSIGNAL);
}

// The servers of `far`, in a process of their own.
inline pid_t start_servers(const unique_fd& far, int streams = 2) {
    const pid_t pid = check(::fork(), "fork the servers");
    if (pid != 0) return pid;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::vector<std::thread> threads;
    const auto serve = [&](std::uint16_t port, int count, void (*how)(const unique_fd&)) {
        auto listener = std::make_shared<unique_fd>(
            test::bind_to(far, SOCK_STREAM, test::at(test::place::web4, port)));
        test::limit_time(listener->get(), std::chrono::milliseconds(0));
        for (int i = 0; i < count; ++i)
            threads.emplace_back([listener, how] { each_connection(*listener, how); });
    };
    serve(sink_port, streams, discard);
    serve(source_port, streams, pour);
    serve(answer_port, at_once, answer);
    for (std::thread& each : threads) each.join();
    ::_exit(0);
}

// To `far`, from the namespace that the calling thread is in.
inline unique_fd connected(std::uint16_t port) {
    const endpoint to = test::at(test::place::web4, port);
    unique_fd made(::socket(to.family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    ::setsockopt(made.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    test::limit_time(made.get());
    if (const int error = test::connect_to(made.get(), to)) fail_errno(error, "connect to {}", to.text());
    return made;
}

// Connects, says a byte and hears it: microseconds.
inline double one_connection() {
    const std::int64_t begin = now_ns();
    const unique_fd server = connected(answer_port);
    char byte = 'x';
    if (::send(server.get(), &byte, 1, MSG_NOSIGNAL) != 1 || ::recv(server.get(), &byte, 1, 0) != 1)
        fail("a connection broke");
    const double microseconds = static_cast<double>(now_ns() - begin) / 1e3;
    (void)::recv(server.get(), &byte, 1,
                 0); // the server closes first: its side keeps the port for a minute, not ours
    return microseconds;
}

} // namespace pinfold::bench
