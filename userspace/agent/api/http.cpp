#include "agent/api/http.hpp"

#include "agent/http_chunk.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <boost/beast/http/string_body.hpp>
#include <fmt/format.h>
#include <utility>

namespace pinfold::http {

namespace beast = boost::beast;

namespace {

std::string lower(beast::string_view text) {
    return lowered({text.data(), text.size()});
}

// A stray '%' stays what it is.
std::string decoded(std::string_view text, bool plus_is_space) {
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 &&
            hex_digit(text[i + 2]) >= 0) {
            result += static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
            i += 2;
        } else {
            result += plus_is_space && text[i] == '+' ? ' ' : text[i];
        }
    }
    return result;
}

std::map<std::string, std::string> parse_query(std::string_view text) {
    std::map<std::string, std::string> query;
    while (!text.empty()) {
        const std::string_view pair = text.substr(0, text.find('&'));
        text.remove_prefix(std::min(text.size(), pair.size() + 1));
        const std::size_t equals = std::min(pair.find('='), pair.size());
        if (equals == 0) continue;
        query.insert_or_assign(decoded(pair.substr(0, equals), true),
                               equals < pair.size() ? decoded(pair.substr(equals + 1), true) : std::string());
    }
    return query;
}

std::string_view reason(int status) {
    if (status == 421) return "Misdirected Request"; // not known to Boost 1.74
    return status == 503 ? std::string_view("Service Unavailable") : [&] {
        const beast::string_view text = beast::http::obsolete_reason(
            static_cast<beast::http::status>(status));
        return std::string_view(text.data(), text.size());
    }();
}

} // namespace

std::string_view request::field(const std::string& name) const {
    const auto found = fields.find(name);
    return found == fields.end() ? std::string_view() : std::string_view(found->second);
}

std::string_view request::upgrade() const {
    const std::string_view connection = field("connection");
    beast::http::token_list tokens(beast::string_view(connection.data(), connection.size()));
    return tokens.exists("upgrade") ? field("upgrade") : std::string_view();
}

std::string to_bytes(const response& from, bool keep_alive) {
    std::string head = fmt::format("HTTP/1.1 {} {}\r\n", from.status, reason(from.status));
    const std::size_t size = from.kept ? from.kept->size() : from.body.size();
    if (size > 0) head += fmt::format("Content-Type: {}\r\n", from.type);
    if (from.status != 204) head += fmt::format("Content-Length: {}\r\n", size);
    for (const auto& [name, value] : from.fields) head += fmt::format("{}: {}\r\n", name, value);
    // What a browser got hold of all the same is neither sniffed nor kept.
    head += "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n";
    if (!keep_alive) head += "Connection: close\r\n";
    return head + "\r\n" + from.body;
}

std::string upgrade_head(std::string_view protocol) {
    return fmt::format("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {}\r\n\r\n",
                       protocol);
}

std::string chunked_head(std::string_view type) {
    return fmt::format(
        "HTTP/1.1 200 OK\r\nContent-Type: {}\r\nTransfer-Encoding: chunked\r\n"
        "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
        type);
}

std::string chunk(std::string_view bytes) {
    return http_chunk(bytes);
}

struct request_reader::parts {
    beast::http::request_parser<beast::http::string_body> parser;
    beast::error_code error;
    bool told_to_continue = false;
    std::size_t upload_limit = 0; // 0 = no file is sent
};

request_reader::request_reader() : parts_(std::make_unique<parts>()) {
    parts_->parser.header_limit(largest_header);
    parts_->parser.body_limit(largest_body);
    parts_->parser.eager(true);
}

request_reader::~request_reader() = default;

namespace {

// By the request line, which stands whole in the first bytes that the parser takes: it judges Content-Length at once.
std::size_t announced_upload(std::string_view bytes) {
    const std::string_view line = bytes.substr(0, bytes.find("\r\n"));
    const std::size_t begin = line.find(' ');
    if (!line.starts_with("POST /v1/sessions/") || begin == std::string_view::npos) return 0;
    const std::string_view target = line.substr(begin + 1, line.find(' ', begin + 1) - begin - 1);
    const std::string_view path = target.substr(0, target.find('?'));
    if (path.ends_with("/drop")) return largest_drop;
    return path.ends_with("/files") ? largest_upload : 0;
}

} // namespace

request_reader::state request_reader::put(std::string_view bytes, std::size_t& taken) {
    auto& parser = parts_->parser;
    taken = 0;
    if (const std::size_t limit = parser.is_header_done() ? 0 : announced_upload(bytes); limit > 0) {
        parser.body_limit(limit);
        parts_->upload_limit = limit;
    }
    while (taken < bytes.size() && !parser.is_done()) {
        beast::error_code error;
        const std::size_t used = parser.put(
            boost::asio::const_buffer(bytes.data() + taken, bytes.size() - taken), error);
        taken += used;
        if (error == beast::http::error::need_more) break;
        if (error) {
            parts_->error = error;
            return state::bad;
        }
        if (used == 0) break;
    }
    if (parser.is_done()) return state::done;
    if (!parser.is_header_done()) return state::header;
    const auto expected = parser.get().find(beast::http::field::expect);
    if (expected != parser.get().end() && lower(expected->value()) == "100-continue" &&
        !std::exchange(parts_->told_to_continue, true))
        return state::continue_me;
    return state::body;
}

bool request_reader::is_upload() const noexcept {
    return parts_->upload_limit > 0;
}

response request_reader::refusal() const {
    using beast::http::error;
    const auto say = [](int status, std::string_view text) {
        return response{.status = status, .body = fmt::format("{{\"error\":\"{}\"}}\n", text)};
    };
    if (parts_->error == error::header_limit || parts_->error == error::buffer_overflow)
        return say(431, "the header of the request is longer than 16 KiB");
    if (parts_->error == error::body_limit)
        return say(413, parts_->upload_limit > 0
                            ? fmt::format("the file is larger than {} MiB", parts_->upload_limit >> 20U)
                            : "the body of the request is longer than 1 MiB");
    if (parts_->error == error::bad_version) return say(505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
    return say(400, fmt::format("this is no HTTP request: {}", parts_->error.message()));
}

request request_reader::take() {
    auto message = parts_->parser.release();
    request result;
    result.method = std::string(message.method_string());
    result.keep_alive = message.keep_alive();
    const std::string_view target(message.target().data(), message.target().size());
    const std::size_t mark = target.find('?');
    result.path = decoded(target.substr(0, mark), false);
    if (mark != std::string_view::npos) result.query = parse_query(target.substr(mark + 1));
    for (const auto& each : message) {
        std::string& value = result.fields[lower(each.name_string())];
        if (!value.empty()) value += ", ";
        value += std::string(each.value());
    }
    result.body = std::move(message.body());
    return result;
}

} // namespace pinfold::http
