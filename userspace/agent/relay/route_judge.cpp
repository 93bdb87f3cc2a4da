#include "agent/relay/destinations.hpp"
#include "base/unique_fd.hpp"
#include "pinfold/denial.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstring>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <span>

namespace pinfold {

namespace {

struct request {
    nlmsghdr header;
    rtmsg route;
    std::array<std::byte, 64> attributes;
};

void append(request& to, std::uint16_t type, const void* value, std::size_t size) {
    auto* at = reinterpret_cast<std::byte*>(&to) + NLMSG_ALIGN(to.header.nlmsg_len);
    const rtattr attribute{.rta_len = static_cast<std::uint16_t>(RTA_LENGTH(size)), .rta_type = type};
    std::memcpy(at, &attribute, sizeof attribute);
    std::memcpy(at + RTA_LENGTH(0), value, size);
    to.header.nlmsg_len = static_cast<std::uint32_t>(NLMSG_ALIGN(to.header.nlmsg_len) +
                                                     RTA_ALIGN(attribute.rta_len));
}

request ask(int protocol, const endpoint& to, std::uint32_t sequence) {
    request made{};
    made.header.nlmsg_len = NLMSG_LENGTH(sizeof(rtmsg));
    made.header.nlmsg_type = RTM_GETROUTE;
    made.header.nlmsg_flags = NLM_F_REQUEST;
    made.header.nlmsg_seq = sequence;
    made.route.rtm_family = to.family;
    made.route.rtm_dst_len = to.is_v4() ? 32 : 128;
    made.route.rtm_flags = RTM_F_FIB_MATCH; // the entry that matched, not the cached way to this one host
    append(made, RTA_DST, to.address.data(), to.address_size());
    // Rules may choose a table by these; without them the answer could be another than the socket gets.
    const auto wire_protocol = static_cast<std::uint8_t>(protocol);
    append(made, RTA_IP_PROTO, &wire_protocol, sizeof wire_protocol);
    const std::uint16_t port = htons(to.port);
    if (protocol == IPPROTO_TCP || protocol == IPPROTO_UDP) append(made, RTA_DPORT, &port, sizeof port);
    return made;
}

// Whether the prefix is one half of the whole address space: VPNs write the default route as 0/1 and 128/1.
bool is_half(const rtmsg& route) {
    return route.rtm_dst_len == 1;
}

std::uint32_t rule_of(const rtmsg& route) {
    if (route.rtm_type == RTN_LOCAL) return PINFOLD_RULE_MACHINE;
    if (route.rtm_type != RTN_UNICAST)
        return PINFOLD_RULE_ROUTE; // broadcast, blackhole, prohibit, unreachable
    return route.rtm_dst_len == 0 || is_half(route) ? PINFOLD_RULE_NONE : PINFOLD_RULE_ROUTE;
}

// For who asks why: everything that tells one route from another. `attributes` is what follows the rtmsg.
matched_route read_route(const rtmsg& route, std::span<const std::byte> attributes) {
    matched_route made{.family = route.rtm_family,
                       .length = route.rtm_dst_len,
                       .type = route.rtm_type,
                       .table = route.rtm_table};
    const std::size_t address = route.rtm_family == AF_INET ? 4 : 16;
    while (attributes.size() >= sizeof(rtattr)) {
        rtattr head{};
        std::memcpy(&head, attributes.data(), sizeof head);
        if (head.rta_len < sizeof head || head.rta_len > attributes.size()) break;
        const auto value = attributes.subspan(RTA_LENGTH(0), head.rta_len - RTA_LENGTH(0));
        const auto copy = [&](void* to, std::size_t size) {
            if (value.size() == size) std::memcpy(to, value.data(), size);
        };
        if (head.rta_type == RTA_DST) copy(made.destination.data(), address);
        if (head.rta_type == RTA_GATEWAY) copy(made.gateway.data(), address);
        if (head.rta_type == RTA_OIF) copy(&made.interface, sizeof made.interface);
        if (head.rta_type == RTA_TABLE) copy(&made.table, sizeof made.table);
        attributes = attributes.subspan(std::min<std::size_t>(RTA_ALIGN(head.rta_len), attributes.size()));
    }
    return made;
}

// The kernel's "there is no route": an error message, which begins with the error's number.
bool says_no_route(std::span<const std::byte> answer) {
    nlmsgerr refusal{};
    if (answer.size() < NLMSG_HDRLEN + sizeof refusal) return false;
    std::memcpy(&refusal, answer.data() + NLMSG_HDRLEN, sizeof refusal);
    return refusal.error == -ENETUNREACH || refusal.error == -EHOSTUNREACH;
}

} // namespace

route_judge::~route_judge() {
    const unique_fd closing(socket_);
}

bool route_judge::open() noexcept {
    if (socket_ >= 0) return true;
    socket_ = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    return socket_ >= 0;
}

std::uint32_t route_judge::judge(int protocol, const endpoint& to, no_route without,
                                 matched_route* found) noexcept {
    constexpr std::uint32_t refused = PINFOLD_RULE_ROUTE; // whatever is not a clear answer
    if (!open()) return refused;
    const request question = ask(protocol, to, ++sequence_);
    if (::send(socket_, &question, question.header.nlmsg_len, 0) < 0) return refused;
    // rtnetlink answers within send(): what is not there now does not come.
    alignas(nlmsghdr) std::array<std::byte, 4096> answer{};
    for (;;) {
        const ssize_t size = ::recv(socket_, answer.data(), answer.size(), MSG_TRUNC);
        if (size < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(rtmsg)))) return refused;
        if (static_cast<std::size_t>(size) > answer.size()) return refused;
        nlmsghdr header{};
        std::memcpy(&header, answer.data(), sizeof header);
        if (header.nlmsg_seq != sequence_) continue; // of a question that was given up
        if (header.nlmsg_type == NLMSG_ERROR && without == no_route::not_local &&
            says_no_route(std::span(answer).first(static_cast<std::size_t>(size))))
            return PINFOLD_RULE_NONE;
        if (header.nlmsg_type != RTM_NEWROUTE) return refused;
        rtmsg route{};
        std::memcpy(&route, answer.data() + NLMSG_HDRLEN, sizeof route);
        if (found != nullptr)
            *found = read_route(
                route,
                std::span(answer).first(static_cast<std::size_t>(size)).subspan(NLMSG_LENGTH(sizeof(rtmsg))));
        return route.rtm_family == to.family ? rule_of(route) : refused;
    }
}

} // namespace pinfold
