#include "agent/proxy/cage_ask.hpp"

#include "agent/proxy/json_shape.hpp"
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

std::expected<std::string, proxy_refusal> rewrite_rpc(json whole, const proxy_head& head,
                                                      const proxy_asker& asker, std::string_view path,
                                                      std::string_view self) {
    const auto found = whole.find("method");
    const std::string method = found != whole.end() && found->is_string() ? found->get<std::string>()
                                                                          : std::string();
    if (std::ranges::find(rpc_methods, method) == rpc_methods.end())
        return not_from_here(head, asker, path, method);
    if (!method.starts_with("Send")) return whole.dump(-1, ' ', false, json::error_handler_t::replace);
    json* message = nullptr;
    if (const auto params = whole.find("params"); params != whole.end() && params->is_object())
        if (const auto inner = params->find("message"); inner != params->end() && inner->is_object())
            message = &*inner;
    if (message == nullptr) return refuse(400, "params.message is missing or no object");
    json& metadata = (*message)["metadata"];
    if (!metadata.is_object()) metadata = json::object();
    metadata["shrooms/from"] = fmt::format("{}/{}", self, asker.session);
    return whole.dump(-1, ' ', false, json::error_handler_t::replace);
}

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
    for (const std::string& each : behind) made.path += "/" + percent_encoded(each);
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
                                                       std::string_view body, const proxy_asker& asker,
                                                       std::string_view self) {
    if (ask.kind == proxy_kind::read || ask.kind == proxy_kind::machines) {
        if (!body.empty()) return refuse(400, "a GET has no body here");
        return std::string();
    }
    if (ask.kind == proxy_kind::task_update && body.empty()) body = "{}";
    json whole;
    if (const auto wrong = read_json_strictly(body, whole)) return refuse(400, "the body: " + *wrong);
    if (!whole.is_object()) return refuse(400, "the body is no JSON object");
    if (ask.kind == proxy_kind::rpc) return rewrite_rpc(std::move(whole), head, asker, ask.path, self);
    whole["session"] = asker.session;
    return whole.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string forwarded_head(const cage_ask& ask, const proxy_head& head, const proxy_asker& asker,
                           std::optional<std::uint64_t> length) {
    const bool is_v6 = ask.addr.find(':') != std::string::npos;
    const std::string address = is_v6 ? "[" + ask.addr + "]" : ask.addr;
    const std::string host = ask.own ? "pinfold" : address + ":7387";
    std::string made = fmt::format("{} {}{} HTTP/1.1\r\nHost: {}\r\nX-Shrooms-Caged: {}\r\n", head.method,
                                   ask.path, ask.query, host, percent_encoded(asker.session));
    if (!head.content_type.empty()) made += fmt::format("Content-Type: {}\r\n", head.content_type);
    if (!head.accept.empty()) made += fmt::format("Accept: {}\r\n", head.accept);
    if (head.method == "POST")
        made += length ? fmt::format("Content-Length: {}\r\n", *length) : "Transfer-Encoding: chunked\r\n";
    return made + "\r\n";
}

std::string machines_json(std::span<const machine> all) {
    json list = json::array();
    for (const machine& each : all) list.push_back({{"name", each.name}, {"addr", each.addr}});
    return list.dump(-1, ' ', false, json::error_handler_t::replace);
}

} // namespace pinfold
