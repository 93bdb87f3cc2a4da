// What comes out of a cage's tun, and what is built from it: everything there is hostile.
#include "agent/relay/packet.hpp"
#include "agent/relay/packet_headers.hpp"

#include <cstdlib>
#include <vector>

namespace {

void demand(bool holds) {
    if (!holds) std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pinfold;
    const auto bytes = std::as_bytes(std::span(data, size));
    static std::vector<std::byte> space(largest_packet);
    const auto read = parse_packet(bytes);
    if (!read) return 0;
    demand(read->whole.size() == size && read->payload.size() < size);
    demand(read->flow.source.family == read->flow.destination.family);
    demand(read->kind != packet_kind::syn || size <= largest_held_syn);
    for (const unreachable why :
         {unreachable::network, unreachable::denied, unreachable::host, unreachable::port}) {
        demand(build_unreachable(space, read->flow, why, read->whole).size() <=
               ip6_header + icmp_header + 120);
        demand(!build_unreachable(space, read->flow, why).empty());
    }
    if (read->kind == packet_kind::syn) demand(!build_reset(space, read->flow, read->sequence).empty());
    if (read->kind == packet_kind::echo)
        demand(build_echo_request(space, *read).size() == read->payload.size() + icmp_header);
    if (read->kind == packet_kind::udp)
        demand(read->payload.size() <= payload_room(space, read->flow).size());
    return 0;
}
