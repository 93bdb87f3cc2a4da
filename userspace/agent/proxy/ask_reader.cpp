#include "agent/proxy/ask_reader.hpp"

#include "base/error.hpp"

#include <algorithm>

namespace pinfold {

namespace beast = boost::beast;

namespace {

constexpr std::size_t longest_head = std::size_t{16} * 1024, longest_part = std::size_t{64} * 1024;

std::string_view view(beast::string_view text) {
    return {text.data(), text.size()};
}

// Where two proxies could disagree on where a request ends, the second one may be the cage's own invention.
const char* ambiguity(const beast::http::fields& fields) {
    const auto lengths = fields.count(beast::http::field::content_length);
    const auto encodings = fields.count(beast::http::field::transfer_encoding);
    if (lengths + encodings > 1) return "the length of the body is given twice";
    if (encodings == 1 && view(fields[beast::http::field::transfer_encoding]) != "chunked")
        return "Transfer-Encoding is not 'chunked'";
    if (fields.count(beast::http::field::host) > 1) return "Host stands twice";
    return nullptr;
}

} // namespace

void ask_reader::begin() {
    parser_type& parser = parser_.emplace();
    parser.header_limit(longest_head);
    parser.body_limit(largest_drop + 1);
    refusal_.reset();
}

ask_reader::parser_type& ask_reader::begun() {
    if (!parser_) fail("read a request: none was begun");
    return *parser_;
}

bool ask_reader::take_head(std::string& held) {
    parser_type& parser = begun();
    beast::error_code error;
    if (!held.empty()) {
        const std::size_t used = parser.put(boost::asio::const_buffer(held.data(), held.size()), error);
        held.erase(0, used);
    }
    if (parser.is_header_done()) return keep_head();
    if (error == beast::http::error::header_limit)
        refuse(431, "the head of the request is longer than 16 KiB");
    else if (error == beast::http::error::body_limit)
        refuse(413, "the body is longer than 100 MiB");
    else if (error && error != beast::http::error::need_more)
        refuse(400, "this is no HTTP request: " + error.message());
    return refusal_.has_value();
}

bool ask_reader::keep_head() {
    const parser_type& parser = begun();
    const auto& message = parser.get();
    if (const char* why = ambiguity(message.base())) {
        refuse(400, why);
        return true;
    }
    if (message.version() != 11) {
        refuse(505, "only HTTP/1.1 is spoken here");
        return true;
    }
    // In place: who asks again asks alike.
    head_.method = view(message.method_string());
    head_.target = view(message.target());
    head_.content_type = view(message[beast::http::field::content_type]);
    head_.accept = view(message[beast::http::field::accept]);
    keep_alive_ = parser.keep_alive();
    expects_continue_ = beast::iequals(message[beast::http::field::expect], "100-continue");
    announced_.reset();
    if (const auto length = parser.content_length(); length && !parser.chunked()) announced_ = *length;
    if (!parser.chunked() && !announced_) announced_ = 0;
    return true;
}

ask_reader::part ask_reader::take_part(std::string& held, std::string& into) {
    parser_type& parser = begun();
    into.clear();
    while (!parser.is_done()) {
        if (held.empty()) return part::more;
        into.resize(std::min(held.size(), longest_part)); // no part is longer than what came
        auto& body = parser.get().body();
        body = {into.data(), into.size(), true};
        beast::error_code error;
        const std::size_t used = parser.put(boost::asio::const_buffer(held.data(), held.size()), error);
        held.erase(0, used);
        into.resize(into.size() - body.size);
        if (error && error != beast::http::error::need_buffer && error != beast::http::error::need_more) {
            refuse(error == beast::http::error::body_limit ? 413 : 400, "the body: " + error.message());
            return part::refused;
        }
        if (!into.empty()) return part::some;
        if (used == 0 && !parser.is_done()) return part::more; // of a chunk's frame the rest is missing
    }
    return part::whole;
}

} // namespace pinfold
