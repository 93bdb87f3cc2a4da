#include "agent/proxy/cage_ask.hpp"

#include "agent/proxy/json_rewrite.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

namespace pinfold {

namespace {

using nlohmann::json;

constexpr std::size_t longest_segment = 256;
constexpr std::array rpc_methods{"SendMessage", "SendStreamingMessage", "GetTask", "AckTask"};

std::unexpected<proxy_refusal> refuse(int status, std::string text) {
    return std::unexpected(proxy_refusal{status, std::move(text)});
}

std::unexpected<proxy_refusal> not_from_here(const proxy_head& head, const proxy_asker& asker,
                                             std::string_view path, std::string_view rpc = {}) {
    return refuse(403, fmt::format("not from a {}cage: {} {} {}", asker.sealed ? "sealed " : "", head.method,
                                   path, rpc));
}

// One segment, decoded once. What a receiver could read in another way is no segment: dots, separators, controls, and
// a '%' that would be decoded a second time.
std::optional<std::string> decode_segment(std::string_view text) {
    std::string made;
    for (std::size_t i = 0; i < text.size(); ++i) {
        char c = text[i];
        if (c == '%') {
            if (i + 2 >= text.size() || hex_digit(text[i + 1]) < 0 || hex_digit(text[i + 2]) < 0)
                return std::nullopt;
            c = static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
            i += 2;
        }
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20 || byte == 0x7f || c == '/' || c == '\\' || c == '?' || c == '#' || c == '%')
            return std::nullopt;
        made += c;
    }
    if (made.empty() || made == "." || made == ".." || made.size() > longest_segment) return std::nullopt;
    return made;
}

// "/peer/ADDR/a/b" in decoded segments; nothing = it can be read in two ways.
std::optional<std::vector<std::string>> split_path(std::string_view path) {
    if (!path.starts_with('/')) return std::nullopt;
    std::vector<std::string> segments;
    segments.reserve(8);
    while (!path.empty()) {
        path.remove_prefix(1);
        const std::size_t end = std::min(path.find('/'), path.size());
        auto segment = decode_segment(path.substr(0, end));
        if (!segment) return std::nullopt;
        segments.push_back(std::move(*segment));
        path.remove_prefix(end);
    }
    return segments;
}

bool is_query(std::string_view text) {
    return std::ranges::all_of(
        text, [](char c) { return c > ' ' && c <= '~' && c != '#' && c != '"' && c != '\\'; });
}

// The machine of the list with this address, however it is spelled. Only known machines are dialled.
std::optional<std::size_t> find_machine(const std::string& text, std::span<const machine> machines) {
    const auto parse = [](const std::string& from) -> std::optional<std::array<unsigned char, 17>> {
        std::array<unsigned char, 17> bytes{};
        if (::inet_pton(AF_INET, from.c_str(), bytes.data() + 1) == 1) return bytes[0] = 4, bytes;
        if (::inet_pton(AF_INET6, from.c_str(), bytes.data() + 1) == 1) return bytes[0] = 6, bytes;
        return std::nullopt;
    };
    const auto wanted = parse(text);
    for (std::size_t i = 0; wanted && i < machines.size(); ++i)
        if (parse(machines[i].addr) == wanted) return i;
    return std::nullopt;
}

// The kinds of requests, by method and segments behind /peer/ADDR.
std::optional<proxy_kind> kind_of(std::string_view method, std::span<const std::string> at) {
    const auto is = [&](std::size_t i, std::string_view text) { return i < at.size() && at[i] == text; };
    if (method == "GET") {
        if (at.size() == 2 && is(0, "v1") && is(1, "sessions")) return proxy_kind::read;
        if (at.size() == 2 && is(0, ".well-known") && is(1, "agent-card.json")) return proxy_kind::read;
        if (at.size() == 4 && is(0, "a2a") && is(2, ".well-known") && is(3, "agent-card.json"))
            return proxy_kind::read;
    }
    if (method == "POST") {
        if (is(0, "a2a") && at.size() <= 2) return proxy_kind::rpc;
        if (at.size() == 3 && is(0, "v1") && is(1, "tasks")) return proxy_kind::task_update;
        if (at.size() == 4 && is(0, "v1") && is(1, "sessions") && is(3, "drop")) return proxy_kind::drop;
    }
    return std::nullopt;
}

constexpr std::array<std::string_view, 3> metadata_path{"params", "message", "metadata"};

} // namespace

bool is_address(const std::string& text) {
    in6_addr scratch{};
    return ::inet_pton(AF_INET, text.c_str(), &scratch) == 1 ||
           ::inet_pton(AF_INET6, text.c_str(), &scratch) == 1;
}

std::expected<cage_ask, proxy_refusal> judge_head(const proxy_head& head, const proxy_asker& asker,
                                                  std::span<const machine> machines) {
    const std::size_t mark = std::min(head.target.find('?'), head.target.size());
    const auto segments = split_path(std::string_view(head.target).substr(0, mark));
    const std::string query = head.target.substr(mark);
    if (!segments || !is_query(query))
        return refuse(400, "the path of the request can be read in more than one way");
    if (segments->size() == 1 && segments->front() == "machines") {
        if (head.method != "GET") return refuse(405, "/machines takes only GET");
        return cage_ask{.kind = proxy_kind::machines};
    }
    if (segments->size() < 3 || segments->front() != "peer")
        return refuse(404, "there is /machines and /peer/ADDRESS/… here, nothing else");
    const std::span<const std::string> behind = std::span(*segments).subspan(2);
    cage_ask made{.addr = (*segments)[1], .query = query};
    made.path.reserve(head.target.size());
    for (const std::string& each : behind) made.path.append("/").append(percent_encoded(each));
    if (!is_address(made.addr)) return refuse(400, "'" + made.addr + "' is no IP address");
    const auto kind = kind_of(head.method, behind);
    if (!kind || (asker.sealed && *kind != proxy_kind::task_update))
        return not_from_here(head, asker, made.path);
    made.kind = *kind;
    if (!query.empty() && *kind != proxy_kind::read && *kind != proxy_kind::drop)
        return refuse(400, "this request takes no query");
    if (machines.empty()) return refuse(502, "this agent does not know its machines");
    const auto which = find_machine(made.addr, machines);
    if (!which) return refuse(403, "no machine of this mesh has the address " + made.addr);
    made.addr = machines[*which].addr;
    made.own = *which == 0;
    if (made.kind == proxy_kind::task_update && !made.own)
        return refuse(403, "a cage reports on tasks of its own machine only");
    return made;
}

std::expected<std::string, proxy_refusal> rewrite_body(const cage_ask& ask, const proxy_head& head,
                                                       std::string body, const proxy_asker& asker,
                                                       std::string_view self) {
    if (ask.kind == proxy_kind::read || ask.kind == proxy_kind::machines) {
        if (!body.empty()) return refuse(400, "a GET has no body here");
        return std::string();
    }
    const bool is_rpc = ask.kind == proxy_kind::rpc;
    if (!is_rpc && body.empty()) body = "{}";
    const std::string from = std::string(self) + '/' + asker.session;
    auto made = is_rpc
                    ? rewrite_json(std::move(body),
                                   {.path = metadata_path, .key = "shrooms/from", .value = from})
                    : rewrite_json(std::move(body), {.path = {}, .key = "session", .value = asker.session});
    if (!made) return refuse(400, "the body: " + made.error());
    if (is_rpc && std::ranges::find(rpc_methods, made->method) == rpc_methods.end())
        return not_from_here(head, asker, ask.path, made->method);
    if (is_rpc && made->method.starts_with("Send") && !made->placed)
        return refuse(400, "params.message is missing or no object");
    return std::move(made->text);
}

std::string forwarded_head(const cage_ask& ask, const proxy_head& head, const proxy_asker& asker,
                           std::optional<std::uint64_t> length, std::string_view body) {
    const bool is_v6 = ask.addr.find(':') != std::string::npos;
    std::string made;
    made.reserve(512 + ask.path.size() + ask.query.size() + body.size());
    made.append(head.method).append(" ").append(ask.path).append(ask.query).append(" HTTP/1.1\r\nHost: ");
    if (ask.own)
        made += "pinfold";
    else
        made += (is_v6 ? "[" + ask.addr + "]" : ask.addr) + ":7387";
    made += "\r\nX-Shrooms-Caged: " + percent_encoded(asker.session) + "\r\n";
    if (!head.content_type.empty()) made += "Content-Type: " + head.content_type + "\r\n";
    if (!head.accept.empty()) made += "Accept: " + head.accept + "\r\n";
    if (head.method == "POST")
        made += length ? "Content-Length: " + std::to_string(*length) + "\r\n"
                       : "Transfer-Encoding: chunked\r\n";
    made += "\r\n";
    made += body;
    return made;
}

std::string machines_json(std::span<const machine> all) {
    json list = json::array();
    for (const machine& each : all) list.push_back({{"name", each.name}, {"addr", each.addr}});
    return list.dump(-1, ' ', false, json::error_handler_t::replace);
}

} // namespace pinfold
