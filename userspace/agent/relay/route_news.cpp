#include "agent/relay/route_news.hpp"

#include "base/error.hpp"

#include <array>
#include <cerrno>
#include <cstdint>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <sys/socket.h>

namespace pinfold {

namespace {

// A link that goes down takes its IPv4 routes with it without a word about them, so links are watched too.
constexpr std::uint32_t watched = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE |
                                  RTMGRP_IPV6_ROUTE | 1U << (RTNLGRP_IPV4_RULE - 1) |
                                  1U << (RTNLGRP_IPV6_RULE - 1);

constexpr std::uint8_t nobody = 251; // an rtm_protocol that no routing daemon has, see rtnetlink(7)

unique_fd open_news() {
    unique_fd made(check(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE),
                         "make a socket for news of the machine's routes"));
    sockaddr_nl address{};
    address.nl_family = AF_NETLINK;
    address.nl_groups = watched;
    check(::bind(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
          "ask for news of the machine's routes");
    return made;
}

} // namespace

route_writers::route_writers()
    : socket_(check(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE),
                    "make a socket for questions about the machine's routes")) {
    const int strict = 1; // the kernel heeds a dump's filter only then
    check(::setsockopt(socket_.get(), SOL_NETLINK, NETLINK_GET_STRICT_CHK, &strict, sizeof strict),
          "ask for filtered answers about the machine's routes");
}

void route_writers::wait() noexcept {
    struct {
        nlmsghdr header;
        rtmsg route;
    } question{};
    question.header.nlmsg_len = sizeof question;
    question.header.nlmsg_type = RTM_GETROUTE;
    question.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    question.route.rtm_family = AF_INET6;
    // The answer is its end alone then, however many routes there are.
    question.route.rtm_protocol = nobody;
    if (::send(socket_.get(), &question, sizeof question, 0) < 0) return;
    std::array<std::byte, 8192> answer{};
    while (::recv(socket_.get(), answer.data(), answer.size(), 0) > 0) { // the kernel walks on within recv()
    }
}

route_news::route_news(uring& ring, std::function<void()> changed)
    : socket_(open_news()), readable_(ring, *this, POLLIN), changed_(std::move(changed)) {
    readable_.arm(socket_.get());
}

void route_news::stop() {
    stopping_ = true;
    readable_.cancel();
}

void route_news::woken(watch&) noexcept {
    if (stopping_) return;
    drain(); // first, so that what changes from here on is news again
    writers_.wait();
    changed_();
    readable_.arm(socket_.get());
}

// What the news say does not matter, nor whether some were lost (ENOBUFS): the kernel is asked anew.
void route_news::drain() noexcept {
    std::array<std::byte, 8192> part{};
    while (::recv(socket_.get(), part.data(), part.size(), 0) >= 0 || errno == ENOBUFS || errno == EINTR) {
    }
}

} // namespace pinfold
