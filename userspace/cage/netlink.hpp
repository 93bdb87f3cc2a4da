// rtnetlink in batches: many requests in one system call, each with words for the error message.
#pragma once

#include "base/unique_fd.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

struct nlmsghdr;

namespace pinfold {

// Requests that are sent together and carried out in order.
class netlink_batch {
public:
    // Begins a request; `what` (a literal) names it in errors. NLM_F_REQUEST is added to the flags.
    template <typename Header>
    void begin(std::uint16_t type, std::uint16_t flags, const Header& header, std::string_view what) {
        static_assert(std::is_trivially_copyable_v<Header>);
        begin_bytes(type, flags, std::as_bytes(std::span(&header, 1)), what);
    }
    // Adds an attribute to the request begun last.
    template <typename Value>
    void put(std::uint16_t attribute, const Value& value) {
        static_assert(std::is_trivially_copyable_v<Value>);
        put_bytes(attribute, std::as_bytes(std::span(&value, 1)));
    }
    void put_bytes(std::uint16_t attribute, std::span<const std::byte> value);
    // A nested attribute: what is put between open and close is inside of it.
    [[nodiscard]] std::size_t open(std::uint16_t attribute);
    void close(std::size_t opened);

private:
    friend class netlink_socket;
    void begin_bytes(std::uint16_t type, std::uint16_t flags, std::span<const std::byte> header,
                     std::string_view what);
    void append(const void* data, std::size_t size);

    std::vector<std::byte> bytes_;
    std::size_t current_ = 0; // where the request begun last starts
    std::vector<std::string_view> what_;
};

// A socket of the network namespace that the calling thread was in when it was made.
class netlink_socket {
public:
    // `groups` are RTMGRP_ bits, to be told of changes. Throws std::system_error.
    explicit netlink_socket(std::uint32_t groups = 0);

    // Carries all of it out; throws std::system_error naming the first request that was refused.
    void carry_out(netlink_batch& batch);

    // Calls `each` for every object of a dump (RTM_GETROUTE, …). Starts again when the kernel says that the dump was
    // interrupted by a change, so `restart` is called before each try.
    void dump(std::uint16_t type, std::uint8_t family, const std::function<void()>& restart,
              const std::function<void(const nlmsghdr&)>& each);

    // Takes what is waiting without looking at it; false when nothing was. ENOBUFS (news were lost) counts as news.
    bool drain();

    [[nodiscard]] int fd() const noexcept { return socket_.get(); }

private:
    bool dump_once(std::uint16_t type, std::uint8_t family, const std::function<void(const nlmsghdr&)>& each);

    unique_fd socket_;
    std::uint32_t sequence_ = 0;
};

} // namespace pinfold
