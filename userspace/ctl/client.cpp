#include "ctl/client.hpp"

#include <array>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <sys/socket.h>

namespace pinfold::ctl {

namespace beast = boost::beast;
using nlohmann::json;

namespace {

constexpr std::uint64_t largest_answer = 64U << 20;

using response_parser = beast::http::response_parser<beast::http::string_body>;

// Reads until `enough` says so; what was received behind it stays in the returned bytes.
std::string receive_into(int connection, response_parser& parser, const std::function<bool()>& enough) {
    std::string held;
    std::array<char, 16384> buffer{};
    while (!enough()) {
        const ssize_t got = ::recv(connection, buffer.data(), buffer.size(), 0);
        if (got < 0 && errno == EINTR) continue;
        beast::error_code error;
        if (got <= 0) {
            parser.put_eof(error);
            if (!parser.is_done())
                fail("the agent closed the connection; 'pinfold version' shows whether it runs");
            break;
        }
        held.append(buffer.data(), static_cast<std::size_t>(got));
        while (!held.empty() && !parser.is_done()) {
            const std::size_t used = parser.put(boost::asio::const_buffer(held.data(), held.size()), error);
            held.erase(0, used);
            if (error == beast::http::error::need_more) break;
            if (error) fail("the agent's answer is no HTTP: {}", error.message());
            if (used == 0) break;
        }
    }
    return held;
}

} // namespace

void client::send(std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t sent = ::send(connection_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        bytes.remove_prefix(static_cast<std::size_t>(check(sent, "send to the agent")));
    }
}

namespace {

// Without a head there is no status, and Beast's message would say 200.
void need_answer(const response_parser& parser) {
    if (!parser.is_header_done())
        fail("the agent ended before it answered; its log says why (agent.log in its state directory)");
}

} // namespace

reply client::ask(std::string_view method, std::string_view path, std::string_view body,
                  std::string_view upgrade) {
    std::string head = fmt::format("{} {} HTTP/1.1\r\nHost: pinfold\r\n", method, path);
    if (!upgrade.empty()) head += fmt::format("Connection: Upgrade\r\nUpgrade: {}\r\n", upgrade);
    if (method == "POST")
        head += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", body.size());
    send(head + "\r\n" + std::string(body));
    response_parser parser;
    parser.body_limit(largest_answer);
    parser.eager(true);
    reply answer;
    answer.rest = receive_into(connection_.get(), parser, [&] { return parser.is_done(); });
    need_answer(parser);
    answer.status = static_cast<int>(parser.get().result_int());
    answer.body = std::move(parser.get().body());
    return answer;
}

int client::follow(std::string_view path, const std::function<bool(std::string_view)>& on_part) {
    send(fmt::format("GET {} HTTP/1.1\r\nHost: pinfold\r\n\r\n", path));
    response_parser parser;
    parser.eager(true);
    parser.body_limit(boost::none);
    bool stopped = false;
    auto part = [&](std::uint64_t, beast::string_view text, beast::error_code&) {
        stopped = stopped || !on_part({text.data(), text.size()});
        return text.size();
    };
    parser.on_chunk_body(part);
    receive_into(connection_.get(), parser, [&] { return parser.is_done() || stopped; });
    need_answer(parser);
    return static_cast<int>(parser.get().result_int());
}

json parse_answer(const reply& from) {
    json parsed = from.body.empty() ? json::object() : json::parse(from.body, nullptr, false);
    if (parsed.is_discarded()) fail("the agent's answer is no JSON");
    if (from.status >= 200 && from.status < 300) return parsed;
    const std::string text = parsed.is_object() ? parsed.value("error", "") : "";
    throw refusal(from.status, text.empty() ? fmt::format("the agent answered {}", from.status) : text);
}

json client::get(std::string_view path) {
    return parse_answer(ask("GET", path));
}

json client::post(std::string_view path, const json& body) {
    return parse_answer(ask("POST", path, body.dump(-1, ' ', false, json::error_handler_t::replace)));
}

void client::remove(std::string_view path) {
    parse_answer(ask("DELETE", path));
}

} // namespace pinfold::ctl
