// Opening TCP connections, by every call that opens one.
#include "incage/probe/endpoint.hpp"

#include <array>
#include <atomic>
#include <cstring>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/un.h>
#include <thread>
#include <vector>

namespace pinfold::probe {
namespace {

constexpr int protocol_mptcp = 262; // IPPROTO_MPTCP, not in every libc

outcome connect_to(int socket, const endpoint& to) {
    if (::connect(socket, to.get(), to.size) == 0) return done();
    return refused(errno == EINPROGRESS ? ETIMEDOUT : errno, "connect"); // how SO_SNDTIMEO shows
}

// Sends what was given and waits until as much came back.
outcome exchange(int socket, std::string_view data) {
    if (data.empty()) return done();
    if (::send(socket, data.data(), data.size(), MSG_NOSIGNAL) < 0) return failed("send");
    return receive_text(socket, data.size());
}

outcome connect_by_protocol(arguments given, int protocol) {
    const endpoint to = to_endpoint(given[0], given[1]);
    const unique_fd socket = make_socket(to.family(), SOCK_STREAM, protocol);
    if (!socket) return failed("socket");
    outcome connected = connect_to(socket.get(), to);
    if (connected.error != 0) return connected;
    return exchange(socket.get(), given.size() > 2 ? given[2] : "");
}

outcome connect_tcp(arguments given) {
    return connect_by_protocol(given, 0);
}

outcome mptcp(arguments given) {
    return connect_by_protocol(given, protocol_mptcp);
}

outcome fastopen_by(arguments given, bool blind) {
    const endpoint to = to_endpoint(given[0], given[1]);
    const std::string_view data = given.size() > 2 ? given[2] : "x";
    const unique_fd socket = make_socket(to.family(), SOCK_STREAM);
    if (!socket) return failed("socket");
    const int on = 1;
    if (blind && ::setsockopt(socket.get(), IPPROTO_TCP, TCP_FASTOPEN_NO_COOKIE, &on, sizeof on) != 0)
        return failed("setsockopt");
    if (::sendto(socket.get(), data.data(), data.size(), MSG_FASTOPEN | MSG_NOSIGNAL, to.get(), to.size) < 0)
        return failed("sendto");
    return given.size() > 2 ? receive_text(socket.get(), data.size()) : done();
}

outcome fastopen(arguments given) {
    return fastopen_by(given, false);
}

outcome fastopen_blind(arguments given) {
    return fastopen_by(given, true);
}

outcome fastopen_connect(arguments given) {
    const endpoint to = to_endpoint(given[0], given[1]);
    const unique_fd socket = make_socket(to.family(), SOCK_STREAM);
    if (!socket) return failed("socket");
    const int on = 1;
    if (::setsockopt(socket.get(), IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &on, sizeof on) != 0)
        return failed("setsockopt");
    outcome connected = connect_to(socket.get(), to);
    if (connected.error != 0) return connected;
    const std::string_view data = given.size() > 2 ? given[2] : "x";
    if (::send(socket.get(), data.data(), data.size(), MSG_NOSIGNAL) < 0) return failed("send");
    return given.size() > 2 ? receive_text(socket.get(), data.size()) : done();
}

// A server of the cage's own on all addresses, reached by the spelling given.
outcome self_connect(arguments given) {
    const unique_fd server = make_socket(AF_INET6, SOCK_STREAM);
    if (!server) return failed("socket");
    sockaddr_in6 all{};
    all.sin6_family = AF_INET6;
    socklen_t size = sizeof all;
    auto* address = reinterpret_cast<sockaddr*>(&all);
    if (::bind(server.get(), address, size) != 0 || ::listen(server.get(), 1) != 0) return failed("listen");
    if (::getsockname(server.get(), address, &size) != 0) return failed("getsockname");
    const endpoint to = to_endpoint(given[0], std::to_string(ntohs(all.sin6_port)));
    const unique_fd client = make_socket(to.family(), SOCK_STREAM);
    if (!client) return failed("socket");
    outcome connected = connect_to(client.get(), to);
    if (connected.error != 0) return connected;
    const unique_fd accepted(::accept4(server.get(), nullptr, nullptr, SOCK_CLOEXEC));
    return accepted ? done() : failed("accept");
}

// A thread swaps the address while connect() reads it: a check of it must be of what the kernel then uses. Succeeds
// where B was reached at least once.
outcome race_connect(arguments given) {
    const endpoint a = to_endpoint(given[0], given[2]);
    const endpoint b = to_endpoint(given[1], given[2]);
    if (a.family() != b.family()) throw usage_error("both addresses must be of one family");
    endpoint shared = a;
    std::atomic<bool> stop = false;
    std::thread flipper([&] {
        // One of them in each turn: an emulated CPU takes this thread away between two turns only, and either is to stay.
        for (bool is_b = true; !stop.load(std::memory_order_relaxed); is_b = !is_b) {
            std::memcpy(&shared.address, is_b ? &b.address : &a.address, sizeof a.address);
            std::atomic_signal_fence(std::memory_order_seq_cst);
        }
    });
    std::uint64_t at_a = 0;
    std::uint64_t at_b = 0;
    std::uint64_t refusals = 0;
    for (std::uint64_t left = number(given[3]); left > 0; --left) {
        const unique_fd socket = make_socket(a.family(), SOCK_DGRAM);
        endpoint peer;
        peer.size = sizeof peer.address;
        if (!socket || ::connect(socket.get(), shared.get(), shared.size) != 0) {
            ++refusals;
        } else if (::getpeername(socket.get(), &peer.address.any, &peer.size) == 0) {
            ++(peer == b ? at_b : at_a);
            ::send(socket.get(), "x", 1, MSG_NOSIGNAL);
        }
    }
    stop = true;
    flipper.join();
    const std::string counts = joined("a=", at_a, " b=", at_b, " refused=", refusals);
    return at_b > 0 ? done(counts) : refused(EACCES, counts);
}

outcome connect_unix(std::string_view path, bool is_abstract) {
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    if (path.size() + 1 > sizeof address.sun_path) throw usage_error("the name is too long");
    std::memcpy(address.sun_path + (is_abstract ? 1 : 0), path.data(), path.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
    outcome last;
    for (const int type : {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM}) {
        const unique_fd socket = make_socket(AF_UNIX, type);
        if (!socket) return failed("socket");
        if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0)
            return done(joined("type ", type));
        if (last.error != EPROTOTYPE || errno != EPROTOTYPE) last = failed("connect");
    }
    return last;
}

outcome unix_connect(arguments given) {
    return connect_unix(given[0], false);
}

outcome abstract_connect(arguments given) {
    return connect_unix(given[0], true);
}

// The twin: two ends within the cage meet by an abstract name.
outcome abstract_pair(arguments given) {
    const unique_fd server = make_socket(AF_UNIX, SOCK_STREAM);
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    if (given[0].size() + 1 > sizeof address.sun_path) throw usage_error("the name is too long");
    std::memcpy(address.sun_path + 1, given[0].data(), given[0].size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + given[0].size() + 1);
    if (::bind(server.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) return failed("bind");
    if (::listen(server.get(), 1) != 0) return failed("listen");
    return connect_unix(given[0], true);
}

constexpr act table[] = {
    {"connect-tcp", "ADDRESS PORT [DATA]: connect; with DATA wait for its echo", 2, 3, connect_tcp},
    {"mptcp", "ADDRESS PORT [DATA]: the same over multipath TCP", 2, 3, mptcp},
    {"fastopen", "ADDRESS PORT [DATA]: sendto with MSG_FASTOPEN", 2, 3, fastopen},
    {"fastopen-blind", "ADDRESS PORT [DATA]: the same without a cookie, the data in the SYN", 2, 3,
     fastopen_blind},
    {"fastopen-connect", "ADDRESS PORT [DATA]: TCP_FASTOPEN_CONNECT, connect, write", 2, 3, fastopen_connect},
    {"self-connect", "ADDRESS: reach a server of the cage's own by this spelling", 1, 1, self_connect},
    {"race-connect", "A B PORT TRIES: connect while a thread swaps the address", 4, 4, race_connect},
    {"unix-connect", "PATH", 1, 1, unix_connect},
    {"abstract-connect", "NAME", 1, 1, abstract_connect},
    {"abstract-pair", "NAME: listen there and connect to it", 1, 1, abstract_pair},
};

} // namespace

std::span<const act> connect_acts() {
    return table;
}

} // namespace pinfold::probe
