#include "agent/relay/route_news.hpp"

#include "base/error.hpp"

#include <array>
#include <cerrno>
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
    changed_();
    readable_.arm(socket_.get());
}

// What the news say does not matter, nor whether some were lost (ENOBUFS): the kernel is asked anew.
void route_news::drain() noexcept {
    std::array<std::byte, 8192>
        part; // NOLINT(cppcoreguidelines-pro-type-member-init): only to be overwritten
    while (::recv(socket_.get(), part.data(), part.size(), 0) >= 0 || errno == ENOBUFS || errno == EINTR) {
    }
}

} // namespace pinfold
