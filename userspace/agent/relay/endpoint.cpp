#include "agent/relay/endpoint.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/random.h>

namespace pinfold {

namespace {

void put_word(std::uint8_t* to, std::uint32_t word) {
    const std::uint32_t ordered = htonl(word);
    std::memcpy(to, &ordered, sizeof ordered);
}

std::uint32_t get_word(const std::uint8_t* from) {
    std::uint32_t word = 0;
    std::memcpy(&word, from, sizeof word);
    return ntohl(word);
}

constexpr std::uint32_t mapped_word = 0x0000ffff;

} // namespace

endpoint endpoint::v4(std::uint32_t host_order, std::uint16_t port) {
    endpoint made{.family = AF_INET, .port = port};
    put_word(made.address.data(), host_order);
    return made;
}

endpoint endpoint::v6(const std::array<std::uint32_t, 4>& words, std::uint16_t port) {
    endpoint made{.family = AF_INET6, .port = port};
    for (std::size_t i = 0; i < words.size(); ++i) put_word(made.address.data() + 4 * i, words[i]);
    return made;
}

endpoint endpoint::from(const sockaddr_storage& from, socklen_t size) {
    if (from.ss_family == AF_INET && size >= sizeof(sockaddr_in)) {
        const auto& in = reinterpret_cast<const sockaddr_in&>(from);
        return v4(ntohl(in.sin_addr.s_addr), ntohs(in.sin_port));
    }
    if (from.ss_family != AF_INET6 || size < sizeof(sockaddr_in6)) return {};
    const auto& in6 = reinterpret_cast<const sockaddr_in6&>(from);
    endpoint made{.family = AF_INET6, .port = ntohs(in6.sin6_port)};
    std::memcpy(made.address.data(), &in6.sin6_addr, made.address.size());
    if (made.is_v4_mapped()) return v4(made.words()[3], made.port);
    return made;
}

std::optional<endpoint> endpoint::parse(std::string_view text, std::uint16_t port) {
    const std::size_t percent = text.find('%');
    const std::string address(text.substr(0, percent));
    sockaddr_storage storage{};
    auto& in = reinterpret_cast<sockaddr_in&>(storage);
    auto& in6 = reinterpret_cast<sockaddr_in6&>(storage);
    if (inet_pton(AF_INET, address.c_str(), &in.sin_addr) == 1) {
        in.sin_family = AF_INET;
        in.sin_port = htons(port);
    } else if (inet_pton(AF_INET6, address.c_str(), &in6.sin6_addr) == 1) {
        in6.sin6_family = AF_INET6;
        in6.sin6_port = htons(port);
    } else {
        return std::nullopt;
    }
    endpoint made = from(storage, sizeof storage);
    if (percent == std::string_view::npos) return made;
    made.scope = if_nametoindex(std::string(text.substr(percent + 1)).c_str());
    if (made.is_v4() || made.scope == 0) return std::nullopt;
    return made;
}

bool endpoint::is_v4() const noexcept {
    return family == AF_INET;
}

std::uint32_t endpoint::v4() const noexcept {
    return get_word(address.data());
}

std::array<std::uint32_t, 4> endpoint::words() const noexcept {
    const std::uint8_t* from = address.data();
    return {get_word(from), get_word(from + 4), get_word(from + 8), get_word(from + 12)};
}

bool endpoint::is_v4_mapped() const noexcept {
    if (family != AF_INET6) return false;
    const auto each = words();
    return each[0] == 0 && each[1] == 0 && each[2] == mapped_word;
}

socklen_t endpoint::write(sockaddr_storage& to) const {
    to = {};
    to.ss_family = family;
    if (is_v4()) {
        auto& in = reinterpret_cast<sockaddr_in&>(to);
        std::memcpy(&in.sin_addr, address.data(), sizeof in.sin_addr);
        in.sin_port = htons(port);
        return sizeof in;
    }
    auto& in6 = reinterpret_cast<sockaddr_in6&>(to);
    std::memcpy(&in6.sin6_addr, address.data(), sizeof in6.sin6_addr);
    in6.sin6_port = htons(port);
    in6.sin6_scope_id = scope;
    return sizeof in6;
}

std::string endpoint::text() const {
    std::array<char, INET6_ADDRSTRLEN> buffer{};
    if (family == 0 || inet_ntop(family, address.data(), buffer.data(), buffer.size()) == nullptr)
        return "nowhere";
    return is_v4() ? fmt::format("{}:{}", buffer.data(), port) : fmt::format("[{}]:{}", buffer.data(), port);
}

flow_hash::flow_hash() {
    check(getrandom(seed_.data(), sizeof seed_, 0), "draw the seed of the relay's flow tables");
}

std::size_t flow_hash::operator()(const flow_key& key) const noexcept {
    // Multiply and fold: each step mixes 64 bits of the key with a secret of the same length.
    std::uint64_t state = seed_[0];
    const auto mix = [&](std::uint64_t part) {
        const auto product = static_cast<unsigned __int128>(state ^ part) *
                             ((seed_[1] ^ std::rotl(part, 32)) | 1);
        state = static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
    };
    mix(std::uint64_t{key.protocol} << 48 | std::uint64_t{key.source.port} << 16 | key.destination.port);
    for (const endpoint* end : {&key.source, &key.destination}) {
        const auto words = end->words();
        mix(std::uint64_t{words[0]} << 32 | words[1]);
        mix(std::uint64_t{words[2]} << 32 | words[3]);
    }
    mix(std::uint64_t{key.source.family} << 8 | key.destination.family);
    return static_cast<std::size_t>(state);
}

} // namespace pinfold
