// Sending datagrams: to one destination or several, by every call, in every spelling of the address.
#include "incage/probe/endpoint.hpp"

#include <array>
#include <cstring>
#include <netinet/icmp6.h>
#include <netinet/ip_icmp.h>
#include <sys/mman.h>
#include <vector>

namespace pinfold::probe {
namespace {

std::string_view data_or_x(arguments given, std::size_t at) {
    return given.size() > at ? given[at] : "x";
}

outcome send_to(int socket, const endpoint& to, std::string_view data) {
    const ssize_t sent = ::sendto(socket, data.data(), data.size(), MSG_NOSIGNAL, to.get(), to.size);
    return sent < 0 ? failed("sendto") : done();
}

outcome send_udp(arguments given) {
    const endpoint to = to_endpoint(given[0], given[1]);
    const unique_fd socket = make_socket(to.family(), SOCK_DGRAM);
    if (!socket) return failed("socket");
    return send_to(socket.get(), to, data_or_x(given, 2));
}

outcome ask_udp(arguments given) {
    const endpoint to = to_endpoint(given[0], given[1]);
    const unique_fd socket = make_socket(to.family(), SOCK_DGRAM);
    if (!socket) return failed("socket");
    const outcome sent = send_to(socket.get(), to, data_or_x(given, 2));
    return sent.error != 0 ? sent : receive_text(socket.get(), 1);
}

outcome connect_udp(arguments given) {
    const endpoint to = to_endpoint(given[0], given[1]);
    const unique_fd socket = make_socket(to.family(), SOCK_DGRAM);
    if (!socket) return failed("socket");
    if (::connect(socket.get(), to.get(), to.size) != 0) return failed("connect");
    const std::string_view data = data_or_x(given, 2);
    return ::send(socket.get(), data.data(), data.size(), MSG_NOSIGNAL) < 0 ? failed("send") : done();
}

struct message {
    endpoint to;
    iovec part{};
    msghdr header{};

    message(const endpoint& where, std::string_view data) : to(where) {
        part = {.iov_base = const_cast<char*>(data.data()), .iov_len = data.size()};
        header.msg_name = &to.address;
        header.msg_namelen = to.size;
        header.msg_iov = &part;
        header.msg_iovlen = 1;
    }
    message(const message&) = delete;
    message& operator=(const message&) = delete;
    ~message() = default;
};

outcome sendmsg_udp(arguments given) {
    message whole(to_endpoint(given[0], given[1]), data_or_x(given, 2));
    const unique_fd socket = make_socket(whole.to.family(), SOCK_DGRAM);
    if (!socket) return failed("socket");
    return ::sendmsg(socket.get(), &whole.header, MSG_NOSIGNAL) < 0 ? failed("sendmsg") : done();
}

// The call ends before the first refused message, and the next call says why.
outcome sendmmsg_udp(arguments given) {
    if (given.size() % 2 != 0) throw usage_error("an address without a port");
    std::vector<endpoint> targets;
    for (std::size_t i = 0; i < given.size(); i += 2) targets.push_back(to_endpoint(given[i], given[i + 1]));
    std::vector<mmsghdr> messages(targets.size());
    char byte = 'x';
    iovec part{.iov_base = &byte, .iov_len = 1};
    for (std::size_t i = 0; i < targets.size(); ++i) {
        messages[i].msg_hdr.msg_name = &targets[i].address;
        messages[i].msg_hdr.msg_namelen = targets[i].size;
        messages[i].msg_hdr.msg_iov = &part;
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    const unique_fd socket = make_socket(targets[0].family(), SOCK_DGRAM);
    if (!socket) return failed("socket");
    std::size_t sent = 0;
    while (sent < messages.size()) {
        const int now = ::sendmmsg(socket.get(), &messages[sent],
                                   static_cast<unsigned>(messages.size() - sent), 0);
        if (now < 0) return failed(joined("sendmmsg sent=", sent));
        sent += static_cast<std::size_t>(now);
    }
    return done(joined("sent=", sent));
}

// Connected to a place that is allowed, then sent elsewhere.
outcome elsewhere(arguments given, bool dissolve) {
    const endpoint first = to_endpoint(given[0], given[1]);
    const endpoint second = to_endpoint(given[2], given[3]);
    const unique_fd socket = make_socket(first.family(), SOCK_DGRAM);
    if (!socket) return failed("socket");
    if (::connect(socket.get(), first.get(), first.size) != 0) return failed("first connect");
    const sockaddr nowhere{.sa_family = AF_UNSPEC, .sa_data = {}};
    if (dissolve && ::connect(socket.get(), &nowhere, sizeof nowhere) != 0) return failed("dissolve");
    return send_to(socket.get(), second, "x");
}

outcome connected_sendto(arguments given) {
    return elsewhere(given, false);
}

outcome unspec_reconnect(arguments given) {
    return elsewhere(given, true);
}

// sendto() on an AF_INET socket takes AF_UNSPEC for AF_INET.
outcome unspec_sendto(arguments given) {
    endpoint to = to_endpoint(given[0], given[1]);
    const unique_fd socket = make_socket(to.family(), SOCK_DGRAM);
    if (!socket) return failed("socket");
    to.address.any.sa_family = AF_UNSPEC;
    return send_to(socket.get(), to, "x");
}

// An address that lies where its lower 32 bits are zero: a check that compares half of the pointer takes it for none.
outcome sendto_at_4gib(arguments given) {
    const endpoint to = to_endpoint(given[0], given[1]);
    void* const wanted = reinterpret_cast<void*>(0x1'0000'0000);
    void* const place = ::mmap(wanted, 4096, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (place != wanted) return failed("mmap");
    std::memcpy(place, &to.address, to.size);
    const unique_fd socket = make_socket(to.family(), SOCK_DGRAM);
    if (!socket) return failed("socket");
    if (::sendto(socket.get(), "x", 1, MSG_NOSIGNAL, static_cast<sockaddr*>(place), to.size) < 0)
        return failed("sendto");
    return done();
}

// An IPv6 socket is given a plain IPv4 address: the kernel goes on in its IPv4 half.
outcome v6_socket_v4_address(arguments given) {
    const endpoint to = to_endpoint(given[0], given[1]);
    if (to.family() != AF_INET) throw usage_error("wants an IPv4 address");
    const unique_fd socket = make_socket(AF_INET6, SOCK_DGRAM);
    if (!socket) return failed("socket");
    return send_to(socket.get(), to, data_or_x(given, 2));
}

outcome broadcast(arguments given) {
    const endpoint to = to_endpoint(given[0], given[1]);
    const unique_fd socket = make_socket(to.family(), SOCK_DGRAM);
    if (!socket) return failed("socket");
    const int on = 1;
    if (::setsockopt(socket.get(), SOL_SOCKET, SO_BROADCAST, &on, sizeof on) != 0)
        return failed("setsockopt");
    return send_to(socket.get(), to, "x");
}

// ---- ping ----

std::string echo_request(int family) {
    std::string packet(sizeof(icmphdr) + 8,
                       '\0'); // both kinds begin alike; the kernel writes id and checksum
    packet[0] = static_cast<char>(family == AF_INET ? ICMP_ECHO : ICMP6_ECHO_REQUEST);
    packet.replace(sizeof(icmphdr), 8, "pinfold!");
    return packet;
}

outcome ping_by(arguments given, bool connect_first) {
    const endpoint to = to_endpoint(given[0], "0");
    const unique_fd socket = make_socket(to.family(), SOCK_DGRAM,
                                         to.family() == AF_INET ? int{IPPROTO_ICMP} : int{IPPROTO_ICMPV6});
    if (!socket) return failed("socket");
    const std::string packet = echo_request(to.family());
    if (connect_first) {
        if (::connect(socket.get(), to.get(), to.size) != 0) return failed("connect");
        if (::send(socket.get(), packet.data(), packet.size(), 0) < 0) return failed("send");
    } else if (const outcome sent = send_to(socket.get(), to, packet); sent.error != 0) {
        return sent;
    }
    return receive_text(socket.get(), 1);
}

outcome ping(arguments given) {
    return ping_by(given, false);
}

outcome ping_connect(arguments given) {
    return ping_by(given, true);
}

constexpr act table[] = {
    {"send-udp", "ADDRESS PORT [DATA]: sendto on an unconnected socket", 2, 3, send_udp},
    {"ask-udp", "ADDRESS PORT [DATA]: the same, and wait for an answer", 2, 3, ask_udp},
    {"connect-udp", "ADDRESS PORT [DATA]: connect and send", 2, 3, connect_udp},
    {"sendmsg-udp", "ADDRESS PORT [DATA]", 2, 3, sendmsg_udp},
    {"sendmmsg", "ADDRESS PORT …: one datagram to each, by one call", 2, 64, sendmmsg_udp},
    {"connected-sendto", "A PORT B PORT: connect to A, send to B", 4, 4, connected_sendto},
    {"unspec-reconnect", "A PORT B PORT: connect to A, dissolve by AF_UNSPEC, send to B", 4, 4,
     unspec_reconnect},
    {"unspec-sendto", "ADDRESS PORT: sendto with the family AF_UNSPEC", 2, 2, unspec_sendto},
    {"sendto-at-4gib", "ADDRESS PORT: the address lies at 0x100000000", 2, 2, sendto_at_4gib},
    {"v6socket-v4addr", "ADDRESS PORT [DATA]: an IPv4 address on an IPv6 socket", 2, 3, v6_socket_v4_address},
    {"multicast", "GROUP PORT [DATA]", 2, 3, send_udp},
    {"broadcast", "ADDRESS PORT: with SO_BROADCAST", 2, 2, broadcast},
    {"ping", "ADDRESS: ICMP echo, and wait for the reply", 1, 1, ping},
    {"ping-connect", "ADDRESS: the same on a connected socket", 1, 1, ping_connect},
};

} // namespace

std::span<const act> datagram_acts() {
    return table;
}

} // namespace pinfold::probe
