#include "cage/netlink.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

namespace pinfold {
namespace {

constexpr std::size_t align(std::size_t size) {
    return (size + 3) & ~std::size_t{3};
}

// Large enough for any part of a dump: the kernel fills at most 32 KiB a read.
using answer = std::array<std::byte, 65536>;

// Calls `each` for every message of a datagram until it answers false.
template <typename Each>
bool for_each_message(std::byte* bytes, std::size_t size, Each each) {
    while (size >= sizeof(nlmsghdr)) {
        auto* message = reinterpret_cast<nlmsghdr*>(bytes);
        if (message->nlmsg_len < sizeof(nlmsghdr) || message->nlmsg_len > size) break;
        if (!each(*message)) return false;
        const std::size_t step = std::min(align(message->nlmsg_len), size);
        bytes += step;
        size -= step;
    }
    return true;
}

int error_of(const nlmsghdr& message) {
    nlmsgerr answered = {};
    std::memcpy(&answered, NLMSG_DATA(&message),
                std::min<std::size_t>(sizeof answered, message.nlmsg_len - NLMSG_HDRLEN));
    return -answered.error;
}

std::size_t receive_answer(int socket, answer& into) {
    for (;;) {
        const ssize_t got = ::recv(socket, into.data(), into.size(), 0);
        if (got >= 0) return static_cast<std::size_t>(got);
        if (errno != EINTR) fail_errno(errno, "read the kernel's answer on rtnetlink");
    }
}

} // namespace

void netlink_batch::append(const void* data, std::size_t size) {
    const auto* first = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), first, first + size);
    bytes_.resize(align(bytes_.size()));
    const auto length = static_cast<std::uint32_t>(bytes_.size() - current_);
    std::memcpy(bytes_.data() + current_ + offsetof(nlmsghdr, nlmsg_len), &length, sizeof length);
}

void netlink_batch::begin_bytes(std::uint16_t type, std::uint16_t flags, std::span<const std::byte> header,
                                std::string_view what) {
    current_ = bytes_.size();
    what_.push_back(what);
    const nlmsghdr head = {.nlmsg_len = 0,
                           .nlmsg_type = type,
                           .nlmsg_flags = static_cast<std::uint16_t>(flags | NLM_F_REQUEST),
                           .nlmsg_seq = static_cast<std::uint32_t>(what_.size()),
                           .nlmsg_pid = 0};
    append(&head, sizeof head);
    append(header.data(), header.size());
}

void netlink_batch::put_bytes(std::uint16_t attribute, std::span<const std::byte> value) {
    const rtattr head = {.rta_len = static_cast<std::uint16_t>(sizeof(rtattr) + value.size()),
                         .rta_type = attribute};
    append(&head, sizeof head);
    if (!value.empty()) append(value.data(), value.size());
}

std::size_t netlink_batch::open(std::uint16_t attribute) {
    const std::size_t start = bytes_.size();
    put_bytes(attribute, {});
    return start;
}

void netlink_batch::close(std::size_t opened) {
    const auto length = static_cast<std::uint16_t>(bytes_.size() - opened);
    std::memcpy(bytes_.data() + opened + offsetof(rtattr, rta_len), &length, sizeof length);
}

netlink_socket::netlink_socket(std::uint32_t groups)
    : socket_(
          check(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), "open an rtnetlink socket")) {
    sockaddr_nl own = {};
    own.nl_family = AF_NETLINK;
    own.nl_groups = groups;
    check(::bind(fd(), reinterpret_cast<const sockaddr*>(&own), sizeof own), "bind an rtnetlink socket");
}

void netlink_socket::carry_out(netlink_batch& batch) {
    if (batch.what_.empty()) return;
    // Refusals are always answered; only the last success needs to be, as the sign that all has been done.
    auto* last = reinterpret_cast<nlmsghdr*>(batch.bytes_.data() + batch.current_);
    last->nlmsg_flags |= NLM_F_ACK;
    check(::send(fd(), batch.bytes_.data(), batch.bytes_.size(), 0), "send {} requests to rtnetlink",
          batch.what_.size());
    answer buffer;
    std::size_t refused = 0;
    int error = 0;
    for (bool done = false; !done;) {
        for_each_message(buffer.data(), receive_answer(fd(), buffer), [&](const nlmsghdr& message) {
            if (message.nlmsg_type != NLMSG_ERROR) return true;
            if (error == 0 && error_of(message) != 0) {
                error = error_of(message);
                refused = message.nlmsg_seq;
            }
            done = done || message.nlmsg_seq == batch.what_.size();
            return true;
        });
    }
    if (error != 0)
        fail_errno(error, "{}",
                   refused >= 1 && refused <= batch.what_.size() ? batch.what_[refused - 1] : "rtnetlink");
}

void netlink_socket::dump(std::uint16_t type, std::uint8_t family, const std::function<void()>& restart,
                          const std::function<void(const nlmsghdr&)>& each) {
    for (int tries = 0; tries < 16; ++tries) {
        restart();
        if (dump_once(type, family, each)) return;
    }
    fail_errno(EBUSY, "read the kernel's tables on rtnetlink: they changed during each of 16 tries");
}

bool netlink_socket::dump_once(std::uint16_t type, std::uint8_t family,
                               const std::function<void(const nlmsghdr&)>& each) {
    struct {
        nlmsghdr head;
        rtmsg
            body; // the longest of the headers that a dump may ask with; the kernel reads the family of all of them
    } request = {};
    request.head = {.nlmsg_len = sizeof request,
                    .nlmsg_type = type,
                    .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
                    .nlmsg_seq = ++sequence_,
                    .nlmsg_pid = 0};
    request.body.rtm_family = family;
    check(::send(fd(), &request, sizeof request, 0), "ask rtnetlink for a dump");

    answer buffer;
    bool consistent = true;
    for (bool done = false; !done;) {
        for_each_message(buffer.data(), receive_answer(fd(), buffer), [&](const nlmsghdr& message) {
            if (message.nlmsg_seq != sequence_) return true; // the rest of an earlier, failed dump
            if ((message.nlmsg_flags & NLM_F_DUMP_INTR) != 0) consistent = false;
            // The end of a dump that failed half-way carries an error where an error message does.
            done = message.nlmsg_type == NLMSG_DONE;
            if (done && message.nlmsg_len >= NLMSG_LENGTH(sizeof(int)) && error_of(message) > 0)
                fail_errno(error_of(message), "read a table on rtnetlink to its end");
            if (done) return false;
            if (message.nlmsg_type == NLMSG_ERROR) fail_errno(error_of(message), "read a table on rtnetlink");
            each(message);
            return true;
        });
    }
    return consistent;
}

bool netlink_socket::drain() {
    answer buffer;
    for (bool any = false;; any = true) {
        const ssize_t got = ::recv(fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
        if (got >= 0 || errno == ENOBUFS || errno == EINTR) continue;
        if (errno == EAGAIN) return any;
        fail_errno(errno, "read news of addresses and routes");
    }
}

} // namespace pinfold
