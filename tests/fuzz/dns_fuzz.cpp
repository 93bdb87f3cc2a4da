// What the relay looks at of DNS: the machine's resolv.conf, and the queries that wait for an answer. First byte: which.
#include "agent/relay/endpoint.hpp"
#include "agent/relay/held_queries.hpp"
#include "agent/resolv_conf.hpp"
#include "demand.hpp"

namespace {

void read_settings(std::string_view text) {
    const pinfold::resolver_settings settings = pinfold::parse_resolv_conf(text);
    pinfold::fuzz::demand(!settings.servers.empty() && settings.servers.size() <= 3 &&
                          settings.search.size() <= 6);
    for (const std::string& each : settings.servers) {
        const auto to = pinfold::endpoint::parse(each, 53);
        pinfold::fuzz::demand(to.has_value() ||
                              each.find('%') != std::string::npos); // a link that is not there
    }
}

// Cut into datagrams by their first byte: even ones are queries, odd ones answers.
void ask_and_answer(std::span<const std::byte> bytes) {
    pinfold::held_queries held;
    while (!bytes.empty()) {
        const auto head = std::to_integer<std::size_t>(bytes[0]);
        const auto datagram = bytes.subspan(1, std::min(bytes.size() - 1, head / 2));
        bytes = bytes.subspan(1 + datagram.size());
        const std::size_t before = held.all().size();
        if (head % 2 == 0) {
            held.hold(datagram);
            pinfold::fuzz::demand(held.all().size() <= pinfold::held_queries::most);
        } else {
            const bool taken = held.take_answer(datagram);
            pinfold::fuzz::demand(held.all().size() == before - (taken ? 1U : 0U));
            pinfold::fuzz::demand(!taken || datagram.size() >= pinfold::held_queries::id_size);
        }
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    if (data[0] % 2 == 0)
        read_settings(pinfold::fuzz::text_of(data + 1, size - 1));
    else
        ask_and_answer(pinfold::fuzz::bytes_of(data + 1, size - 1));
    return 0;
}
