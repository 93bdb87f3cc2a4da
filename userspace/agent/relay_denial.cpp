#include "agent/relay_denial.hpp"

#include "agent/relay/endpoint.hpp"

#include <cstring>
#include <ctime>
#include <netinet/in.h>

namespace pinfold {

pinfold_denial denial_of(const relay_refusal& from) {
    timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    const bool echo = from.protocol != IPPROTO_TCP && from.protocol != IPPROTO_UDP;
    pinfold_denial made{};
    made.time_ns = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
                   static_cast<std::uint64_t>(now.tv_nsec);
    made.cage = from.cage;
    made.act = from.act;
    made.rule = from.rule;
    made.family = from.to->family;
    made.type = from.protocol == IPPROTO_TCP ? SOCK_STREAM : SOCK_DGRAM;
    made.protocol = static_cast<std::uint32_t>(from.protocol);
    made.port = echo ? 0 : from.to->port; // an echo flow has its identifier there
    std::memcpy(made.address, from.to->address.data(), sizeof made.address);
    return made;
}

} // namespace pinfold
