#include "agent/proxy/connection.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>

namespace pinfold {

namespace beast = boost::beast;
using namespace std::chrono_literals;

namespace {

constexpr std::chrono::seconds head_time = 10s, idle_time = 60s, body_time = 60s;
constexpr std::size_t head_read = std::size_t{4} * 1024, body_read = std::size_t{64} * 1024,
                      longest_head = std::size_t{16} * 1024;
constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";

std::string text_of(const beast::http::fields& from, beast::http::field name) {
    const auto value = from[name];
    return {value.data(), value.size()};
}

// Where two proxies could disagree on where a request ends, the second one may be the cage's own invention.
const char* ambiguity(const beast::http::fields& fields) {
    const auto lengths = fields.count(beast::http::field::content_length);
    const auto encodings = fields.count(beast::http::field::transfer_encoding);
    if (lengths > 1) return "Content-Length stands twice";
    if (encodings > 1) return "Transfer-Encoding stands twice";
    if (lengths + encodings > 1) return "both Content-Length and Transfer-Encoding are given";
    if (encodings == 1 && text_of(fields, beast::http::field::transfer_encoding) != "chunked")
        return "Transfer-Encoding is not 'chunked'";
    if (fields.count(beast::http::field::host) > 1) return "Host stands twice";
    return nullptr;
}

} // namespace

std::string to_bytes(const proxy_refusal& from) {
    const auto reason = beast::http::obsolete_reason(static_cast<beast::http::status>(from.status));
    const std::string body = nlohmann::json{{"error", from.text}}.dump(
                                 -1, ' ', false, nlohmann::json::error_handler_t::replace) +
                             "\n";
    return fmt::format("HTTP/1.1 {} {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n"
                       "Connection: close\r\n\r\n{}",
                       from.status, std::string_view(reason.data(), reason.size()), body.size(), body);
}

task<bool> proxy_connection::receive_more(std::chrono::seconds limit) {
    const std::size_t before = held_.size(),
                      room = parser_ && parser_->is_header_done() ? body_read : head_read;
    held_.resize(before + room);
    const int size = co_await receive_within(ring_, socket_.get(),
                                             std::as_writable_bytes(std::span(held_).subspan(before)), limit);
    held_.resize(before + static_cast<std::size_t>(std::max(size, 0)));
    co_return size > 0;
}

task<bool> proxy_connection::read_head() {
    parser_ = std::make_unique<parser_type>();
    parser_->header_limit(longest_head);
    parser_->body_limit(largest_drop + 1);
    refusal_.reset();
    while (true) {
        beast::error_code error;
        if (!held_.empty()) {
            const std::size_t used = parser_->put(boost::asio::const_buffer(held_.data(), held_.size()),
                                                  error);
            held_.erase(0, used);
        }
        if (parser_->is_header_done()) co_return take_head();
        if (error == beast::http::error::header_limit)
            refuse(431, "the head of the request is longer than 16 KiB");
        else if (error == beast::http::error::body_limit)
            refuse(413, "the body is longer than 100 MiB");
        else if (error && error != beast::http::error::need_more)
            refuse(400, "this is no HTTP request: " + error.message());
        if (refusal_) co_return false;
        const bool begun = !held_.empty() || parser_->got_some();
        if (!co_await receive_more(begun ? head_time : idle_time)) {
            held_ = {};
            co_return false;
        }
    }
}

bool proxy_connection::take_head() {
    const auto& message = parser_->get();
    if (const char* why = ambiguity(message.base())) {
        refuse(400, why);
        return false;
    }
    if (message.version() != 11) {
        refuse(505, "only HTTP/1.1 is spoken here");
        return false;
    }
    head_ = {.method = std::string(message.method_string()),
             .target = {message.target().data(), message.target().size()},
             .content_type = text_of(message.base(), beast::http::field::content_type),
             .accept = text_of(message.base(), beast::http::field::accept)};
    keep_alive_ = parser_->keep_alive();
    expects_continue_ = beast::iequals(message[beast::http::field::expect], "100-continue");
    announced_.reset();
    if (const auto length = parser_->content_length(); length && !parser_->chunked()) announced_ = *length;
    if (!parser_->chunked() && !announced_) announced_ = 0;
    return true;
}

task<std::optional<std::string>> proxy_connection::read_part() {
    const std::uint64_t wanted = std::max<std::uint64_t>(announced_.value_or(body_read), 1);
    std::string part(static_cast<std::size_t>(std::min<std::uint64_t>(wanted, body_read)), '\0');
    if (std::exchange(expects_continue_, false) && !co_await send(go_on)) co_return std::nullopt;
    while (!parser_->is_done()) {
        auto& body = parser_->get().body();
        body = {part.data(), part.size(), true};
        beast::error_code error;
        std::size_t used = 0;
        if (!held_.empty()) {
            used = parser_->put(boost::asio::const_buffer(held_.data(), held_.size()), error);
            held_.erase(0, used);
        }
        const std::size_t size = part.size() - body.size;
        if (error && error != beast::http::error::need_buffer && error != beast::http::error::need_more) {
            refuse(error == beast::http::error::body_limit ? 413 : 400, "the body: " + error.message());
            co_return std::nullopt;
        }
        if (size > 0) {
            part.resize(size);
            co_return part;
        }
        if (parser_->is_done()) break;
        if (used > 0) continue; // a chunk's frame; the rest may be here already
        if (!co_await receive_more(body_time)) {
            refuse(408, "the body did not come whole");
            co_return std::nullopt;
        }
    }
    co_return std::string();
}

task<std::optional<std::string>> proxy_connection::read_body(std::size_t most) {
    std::string whole;
    if (announced_ && *announced_ > most) {
        refuse(413, fmt::format("the body is longer than {} MiB", most >> 20U));
        co_return std::nullopt;
    }
    while (true) {
        const auto part = co_await read_part();
        if (!part) co_return std::nullopt;
        if (part->empty()) co_return whole;
        whole += *part;
        if (whole.size() <= most) continue;
        refuse(413, fmt::format("the body is longer than {} MiB", most >> 20U));
        co_return std::nullopt;
    }
}

task<bool> proxy_connection::send(std::string_view bytes) {
    co_return co_await send_all(ring_, socket_.get(), std::as_bytes(std::span(bytes))) >= 0;
}

} // namespace pinfold
