// What `pinfold why` is asked about, as people write it: "tcp:192.168.1.1:80", "udp:[fd00::1]:53", "ping:10.0.0.1".
#pragma once

#include "agent/relay/endpoint.hpp"
#include "base/error.hpp"

#include <expected>
#include <string>
#include <string_view>

namespace pinfold {

struct why_target {
    std::string text; // in its plainest form: "tcp:192.168.1.1:80"
    int protocol = 0; // IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMP or IPPROTO_ICMPV6
    endpoint to;      // a v4-mapped address is the IPv4 address that a socket dials
};

// A name is refused: a cage is judged by addresses, and what a name leads to depends on who asks.
[[nodiscard]] std::expected<why_target, problem> parse_why_target(std::string_view text);

} // namespace pinfold
