// Which sockets exist, and which options would steer packets past the destination.
#include "incage/probe/endpoint.hpp"

#include <arpa/inet.h>
#include <array>
#include <cstring>
#include <ifaddrs.h>
#include <linux/rtnetlink.h>
#include <memory>
#include <net/if.h>

namespace pinfold::probe {
namespace {

constexpr int highest_family = 50;

outcome make_one(arguments given) {
    const unique_fd socket(::socket(static_cast<int>(number(given[0])),
                                    static_cast<int>(number(given[1])) | SOCK_CLOEXEC,
                                    static_cast<int>(number(given[2]))));
    return socket ? done() : failed("socket");
}

// family/type/protocol of every socket that could be made, to be compared with a golden list.
outcome make_all(arguments) {
    constexpr std::array protocols{0, 1, 2, 4, 6, 9, 12, 15, 16, 17, 33, 41, 47, 58, 132, 136, 255, 262};
    constexpr std::array<int, 7> types{SOCK_STREAM,    SOCK_DGRAM, SOCK_RAW,   SOCK_RDM,
                                       SOCK_SEQPACKET, SOCK_DCCP,  SOCK_PACKET};
    std::string made;
    for (int family = 0; family <= highest_family; ++family)
        for (const int type : types)
            for (const int protocol : protocols) {
                const unique_fd socket(::socket(family, type | SOCK_CLOEXEC, protocol));
                if (socket) made += joined(made.empty() ? "" : " ", family, "/", type, "/", protocol);
            }
    return made.empty() ? refused(EAFNOSUPPORT) : done(made);
}

// The twin of a closed netlink: links and addresses can be listed.
outcome interfaces(arguments) {
    ifaddrs* list = nullptr;
    if (::getifaddrs(&list) != 0) return failed("getifaddrs");
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, &::freeifaddrs);
    std::string seen;
    for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
        if (each->ifa_addr == nullptr) continue;
        std::array<char, INET6_ADDRSTRLEN> text{};
        const int family = each->ifa_addr->sa_family;
        const void* address = family == AF_INET
                                  ? static_cast<const void*>(
                                        &reinterpret_cast<sockaddr_in*>(each->ifa_addr)->sin_addr)
                                  : &reinterpret_cast<sockaddr_in6*>(each->ifa_addr)->sin6_addr;
        if ((family == AF_INET || family == AF_INET6) &&
            ::inet_ntop(family, address, text.data(), text.size()) != nullptr)
            seen += joined(seen.empty() ? "" : " ", each->ifa_name, "=", text.data());
    }
    return done(seen);
}

outcome set_option(int family, int level, int name, const void* value, std::size_t size) {
    const unique_fd socket = make_socket(family, SOCK_DGRAM);
    if (!socket) return failed("socket");
    if (::setsockopt(socket.get(), level, name, value, static_cast<socklen_t>(size)) != 0)
        return failed("setsockopt");
    return done();
}

// Loose source route through one address.
std::array<std::uint8_t, 8> loose_route(std::string_view through) {
    const endpoint hop = to_endpoint(through, "0");
    if (hop.family() != AF_INET) throw usage_error("wants an IPv4 address");
    std::array<std::uint8_t, 8> option{131, 7, 4};
    std::memcpy(&option[3], &hop.address.v4.sin_addr, 4);
    return option;
}

// A segment routing header with one address: the kind that every kernel takes, and from everybody.
std::array<std::uint8_t, 24> routing_header(std::string_view through) {
    const endpoint hop = to_endpoint(through, "0");
    if (hop.family() != AF_INET6) throw usage_error("wants an IPv6 address");
    std::array<std::uint8_t, 24> header{0, 2, 4, 0};
    std::memcpy(&header[8], &hop.address.v6.sin6_addr, 16);
    return header;
}

outcome ip_options(arguments given) {
    const auto option = loose_route(given[0]);
    return set_option(AF_INET, IPPROTO_IP, IP_OPTIONS, option.data(), option.size());
}

outcome rthdr(arguments given) {
    const auto header = routing_header(given[0]);
    return set_option(AF_INET6, IPPROTO_IPV6, IPV6_RTHDR, header.data(), header.size());
}

outcome hop_options(arguments) {
    constexpr std::array<std::uint8_t, 8> padding{0, 0, 1, 4};
    return set_option(AF_INET6, IPPROTO_IPV6, IPV6_HOPOPTS, padding.data(), padding.size());
}

// Beside one datagram instead of on the socket: no setsockopt hook sees it.
outcome send_with(const endpoint& to, int level, int kind, std::span<const std::uint8_t> option) {
    const unique_fd socket = make_socket(to.family(), SOCK_DGRAM);
    if (!socket) return failed("socket");
    alignas(cmsghdr) std::array<char, 128> control{};
    endpoint target = to;
    char byte = 'x';
    iovec part{.iov_base = &byte, .iov_len = 1};
    msghdr header{};
    header.msg_name = &target.address;
    header.msg_namelen = target.size;
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(option.size());
    cmsghdr* beside = CMSG_FIRSTHDR(&header);
    beside->cmsg_level = level;
    beside->cmsg_type = kind;
    beside->cmsg_len = CMSG_LEN(option.size());
    std::memcpy(CMSG_DATA(beside), option.data(), option.size());
    return ::sendmsg(socket.get(), &header, MSG_NOSIGNAL) < 0 ? failed("sendmsg") : done();
}

outcome ip_options_beside(arguments given) {
    return send_with(to_endpoint(given[0], given[1]), IPPROTO_IP, IP_RETOPTS, loose_route(given[2]));
}

outcome rthdr_beside(arguments given) {
    return send_with(to_endpoint(given[0], given[1]), IPPROTO_IPV6, IPV6_RTHDR, routing_header(given[2]));
}

// Marks choose routes; only an administrator of the namespace may set them.
outcome mark(arguments given) {
    const auto value = static_cast<std::uint32_t>(number(given[0]));
    return set_option(AF_INET, SOL_SOCKET, SO_MARK, &value, sizeof value);
}

// ---- changing the namespace's network ----

outcome ask_netlink(nlmsghdr* request) {
    const unique_fd socket = make_socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    if (!socket) return failed("socket");
    request->nlmsg_flags = static_cast<std::uint16_t>(request->nlmsg_flags | NLM_F_REQUEST | NLM_F_ACK);
    if (::send(socket.get(), request, request->nlmsg_len, 0) < 0) return failed("send");
    alignas(nlmsghdr) std::array<char, 1024> reply{};
    if (::recv(socket.get(), reply.data(), reply.size(), 0) < 0) return failed("receive");
    const auto* header = reinterpret_cast<const nlmsghdr*>(reply.data());
    if (header->nlmsg_type != NLMSG_ERROR) return refused(EBADMSG);
    const int error = -static_cast<const nlmsgerr*>(NLMSG_DATA(header))->error;
    return {error, error == 0 ? "" : "netlink"};
}

// A route that would swallow documentation addresses only.
outcome add_route(arguments) {
    struct {
        nlmsghdr header;
        rtmsg route;
        rtattr attribute;
        in_addr destination;
    } request{};
    request.header = {.nlmsg_len = sizeof request,
                      .nlmsg_type = RTM_NEWROUTE,
                      .nlmsg_flags = NLM_F_CREATE,
                      .nlmsg_seq = 1,
                      .nlmsg_pid = 0};
    request.route.rtm_family = AF_INET;
    request.route.rtm_dst_len = 24;
    request.route.rtm_table = RT_TABLE_MAIN;
    request.route.rtm_protocol = RTPROT_STATIC;
    request.route.rtm_type = RTN_UNREACHABLE;
    request.attribute = {.rta_len = RTA_LENGTH(sizeof(in_addr)), .rta_type = RTA_DST};
    request.destination.s_addr = htonl(0xc6336400); // 198.51.100.0
    return ask_netlink(&request.header);
}

outcome link_down(arguments given) {
    struct {
        nlmsghdr header;
        ifinfomsg link;
    } request{};
    request.header = {.nlmsg_len = sizeof request,
                      .nlmsg_type = RTM_NEWLINK,
                      .nlmsg_flags = 0,
                      .nlmsg_seq = 1,
                      .nlmsg_pid = 0};
    request.link.ifi_index = static_cast<int>(::if_nametoindex(std::string(given[0]).c_str()));
    request.link.ifi_change = IFF_UP;
    return ask_netlink(&request.header);
}

outcome netadmin(arguments) {
    const outcome route = add_route({});
    if (route.error == 0) return done("route");
    const std::string_view loopback = "lo";
    const outcome link = link_down({&loopback, 1});
    return link.error == 0 ? done("link") : link;
}

constexpr act table[] = {
    {"socket", "FAMILY TYPE PROTOCOL: by number", 3, 3, make_one},
    {"sockets", "all families to 50, all types, many protocols; prints what could be made", 0, 0, make_all},
    {"interfaces", "list names and addresses", 0, 0, interfaces},
    {"ip-options", "ADDRESS: source route by setsockopt", 1, 1, ip_options},
    {"ip-options-beside", "ADDRESS PORT HOP: the same beside one datagram", 3, 3, ip_options_beside},
    {"rthdr", "ADDRESS: IPv6 routing header by setsockopt", 1, 1, rthdr},
    {"rthdr-beside", "ADDRESS PORT HOP: the same beside one datagram", 3, 3, rthdr_beside},
    {"hop-options", "IPv6 hop-by-hop header", 0, 0, hop_options},
    {"mark", "NUMBER: SO_MARK", 1, 1, mark},
    {"add-route", "an unreachable route for 198.51.100.0/24", 0, 0, add_route},
    {"link-down", "INTERFACE", 1, 1, link_down},
    {"netadmin", "add that route, set lo down", 0, 0, netadmin},
};

} // namespace

std::span<const act> socket_acts() {
    return table;
}

} // namespace pinfold::probe
