// The kernel tells of an IPv6 route a moment before it is in force: whoever judges by the news must wait it out.
#include "agent/relay/destinations.hpp"
#include "agent/relay/route_news.hpp"
#include "base/error.hpp"
#include "pinfold/denial.h"
#include "support/catch.hpp"

#include <arpa/inet.h>
#include <array>
#include <cstring>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <thread>

namespace pinfold::test {
namespace {

constexpr unsigned loopback = 1; // the index that lo has in every network namespace

unique_fd route_socket(std::uint32_t groups) {
    unique_fd made(
        check(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), "make a route socket"));
    const int strict = 1;
    check(::setsockopt(made.get(), SOL_NETLINK, NETLINK_GET_STRICT_CHK, &strict, sizeof strict), "be strict");
    sockaddr_nl address{};
    address.nl_family = AF_NETLINK;
    address.nl_groups = groups;
    check(::bind(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
          "bind a route socket");
    return made;
}

void raise_loopback() {
    const unique_fd any(check(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "make a socket"));
    ifreq request{};
    std::strcpy(request.ifr_name, "lo");
    request.ifr_flags = IFF_UP;
    check(::ioctl(any.get(), SIOCSIFFLAGS, &request), "set lo up");
}

// Adds (RTM_NEWROUTE) or deletes (RTM_DELROUTE) 2a02:db8:51::/48 at lo, and waits for the kernel's answer.
void change(int by, std::uint16_t kind) {
    struct {
        nlmsghdr header;
        rtmsg route;
        rtattr destination_head;
        in6_addr destination;
        rtattr interface_head;
        unsigned interface;
    } request{};
    request.header = {.nlmsg_len = sizeof request,
                      .nlmsg_type = kind,
                      .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
                      .nlmsg_seq = 0,
                      .nlmsg_pid = 0};
    if (kind == RTM_NEWROUTE) request.header.nlmsg_flags |= NLM_F_CREATE | NLM_F_EXCL;
    request.route.rtm_family = AF_INET6;
    request.route.rtm_dst_len = 48;
    request.route.rtm_table = RT_TABLE_MAIN;
    request.route.rtm_protocol = RTPROT_STATIC;
    request.route.rtm_type = RTN_UNICAST;
    request.destination_head = {.rta_len = RTA_LENGTH(sizeof(in6_addr)), .rta_type = RTA_DST};
    ::inet_pton(AF_INET6, "2a02:db8:51::", &request.destination);
    request.interface_head = {.rta_len = RTA_LENGTH(sizeof(unsigned)), .rta_type = RTA_OIF};
    request.interface = loopback;
    check(::send(by, &request, sizeof request, 0), "change a route");
    std::array<std::byte, 512> answer{};
    check(::recv(by, answer.data(), answer.size(), 0), "read what became of it");
    nlmsgerr result{};
    std::memcpy(&result, answer.data() + NLMSG_HDRLEN, sizeof result);
    if (result.error != 0) fail_errno(-result.error, "change a route");
}

TEST_CASE("a route that the kernel has told of is in force once its writers were waited for") {
    std::thread apart([] {
        check(::unshare(CLONE_NEWNET), "make a network namespace");
        raise_loopback();
        const unique_fd news = route_socket(1U << (RTNLGRP_IPV6_ROUTE - 1));
        route_writers writers;
        const unique_fd writer = route_socket(0);
        route_judge judge;
        endpoint to;
        to.family = AF_INET6;
        to.port = 9000;
        REQUIRE(::inet_pton(AF_INET6, "2a02:db8:51::7", to.address.data()) == 1);
        const auto told = [&news](std::uint16_t kind) {
            nlmsghdr head{};
            do check(::recv(news.get(), &head, sizeof head, 0), "wait for news");
            while (head.nlmsg_type != kind);
        };
        int early = 0;
        for (int turn = 0; turn < 2000; ++turn) {
            std::thread adds([&writer] { change(writer.get(), RTM_NEWROUTE); });
            told(RTM_NEWROUTE);
            writers.wait();
            if (judge.judge(IPPROTO_TCP, to, route_judge::no_route::not_local) != PINFOLD_RULE_ROUTE) ++early;
            adds.join();
            CHECK(judge.judge(IPPROTO_TCP, to, route_judge::no_route::not_local) == PINFOLD_RULE_ROUTE);
            change(writer.get(), RTM_DELROUTE);
            told(RTM_DELROUTE);
        }
        CHECK(early == 0);
    });
    apart.join();
}

} // namespace
} // namespace pinfold::test
