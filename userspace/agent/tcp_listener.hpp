// The agent's port at addresses of the network: only those that were named, never all of the machine's.
#pragma once

#include "base/unique_fd.hpp"

#include <cstdint>
#include <string>

namespace pinfold {

struct tcp_listener {
    unique_fd socket;
    std::string host; // the address as a URL's Host has it: an IPv6 one in brackets
};

// `address` is numeric. Throws where it is a wildcard, no address, or not this machine's.
[[nodiscard]] tcp_listener listen_at(const std::string& address, std::uint16_t port);

// Whose connection this is, without its port; an IPv4 one that came mapped as IPv4. Never empty.
[[nodiscard]] std::string peer_address(int connection);

} // namespace pinfold
