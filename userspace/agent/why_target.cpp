#include "agent/why_target.hpp"

#include <algorithm>
#include <charconv>
#include <netinet/in.h>
#include <optional>
#include <utility>

namespace pinfold {
namespace {

constexpr std::size_t longest = 256;
constexpr std::string_view forms =
    "tcp:ADDRESS:PORT, udp:ADDRESS:PORT or ping:ADDRESS, an IPv6 address in brackets: "
    "tcp:[2001:db8::1]:443";

std::unexpected<problem> wrong(std::string what) {
    return std::unexpected(problem{"target", std::move(what)});
}

// "[fd00::1]:80" and "10.0.0.1:80" apart; with no port also "fd00::1".
struct parts {
    std::string_view host, port;
    bool has_port = false, closed = true;
};

parts split(std::string_view text, bool port_follows) {
    if (text.starts_with('[')) {
        const std::size_t end = text.find(']');
        if (end == std::string_view::npos) return {.host = text, .closed = false};
        const std::string_view rest = text.substr(end + 1);
        return {.host = text.substr(1, end - 1),
                .port = rest.starts_with(':') ? rest.substr(1) : rest,
                .has_port = rest.starts_with(':'),
                .closed = rest.empty() || rest.starts_with(':')};
    }
    if (!port_follows) return {.host = text};
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) return {.host = text};
    return {.host = text.substr(0, colon), .port = text.substr(colon + 1), .has_port = true};
}

std::optional<std::uint16_t> port_of(std::string_view text) {
    unsigned port = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (error != std::errc{} || end != text.data() + text.size() || port == 0 || port > UINT16_MAX)
        return std::nullopt;
    return static_cast<std::uint16_t>(port);
}

bool looks_numeric(std::string_view host) {
    return host.find(':') != std::string_view::npos ||
           std::ranges::all_of(host, [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
}

std::string quoted(std::string_view text) {
    return fmt::format("'{}'", text);
}

// Why this is no address, with what to write instead.
std::string no_address(std::string_view host) {
    if (host.empty()) return fmt::format("names no address; write {}", forms);
    if (host.find('%') != std::string_view::npos)
        return quoted(host) +
               " names a link of this machine, and a cage has none of them: leave what is behind '%' away";
    if (looks_numeric(host))
        return quoted(host) +
               " is no address as IPv4 and IPv6 are written (four decimal numbers, or hexadecimal groups)";
    return quoted(host) +
           " is a name, and a cage is judged by addresses: what a name leads to depends on who asks, and "
           "when. 'pinfold exec NAME -- getent ahosts HOST' shows what it is in the cage";
}

} // namespace

std::expected<why_target, problem> parse_why_target(std::string_view text) {
    const std::size_t colon = text.find(':');
    const std::string_view kind = text.substr(0, colon);
    const bool ping = kind == "ping";
    if (text.size() > longest || colon == std::string_view::npos || (kind != "tcp" && kind != "udp" && !ping))
        return wrong(fmt::format("must be {}", forms));
    const parts found = split(text.substr(colon + 1), !ping);
    if (!found.closed)
        return wrong("has a bracket that is not closed, or something behind it that is no port");
    if (ping && found.has_port) return wrong("has a port, and ping has none");
    if (!ping && !found.has_port) return wrong(fmt::format("has no port; write {}", forms));
    const auto port = ping ? std::optional<std::uint16_t>(0) : port_of(found.port);
    const auto to = found.host.find('%') == std::string_view::npos
                        ? endpoint::parse(found.host, port.value_or(0))
                        : std::nullopt;
    if (!to) return wrong(no_address(found.host));
    if (!port) return wrong(quoted(found.port) + " is no port between 1 and 65535");
    why_target made{.protocol = kind == "tcp" ? IPPROTO_TCP : IPPROTO_UDP, .to = *to};
    if (ping) made.protocol = to->is_v4() ? int{IPPROTO_ICMP} : int{IPPROTO_ICMPV6};
    std::string address = to->text();
    if (ping) address.erase(address.rfind(':'));
    made.text = std::string(kind) + ":" + address;
    return made;
}

} // namespace pinfold
