#include "agent/gateway/request_in.hpp"

#include <array>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/rfc7230.hpp>

namespace pinfold {

namespace http = boost::beast::http;

struct model_request_reader::parts {
    http::request_parser<http::buffer_body> parser;
    std::array<char, 65536> piece{};
};

model_request_reader::model_request_reader() : parts_(std::make_unique<parts>()) {
    parts_->parser.header_limit(largest_header);
    parts_->parser.body_limit(largest_body);
    parts_->parser.eager(true);
}

model_request_reader::~model_request_reader() = default;

bool model_request_reader::has_head() const {
    return parts_->parser.is_header_done();
}

bool model_request_reader::done() const {
    return parts_->parser.is_done();
}

bool model_request_reader::expects_continue() const {
    const auto& fields = parts_->parser.get();
    const auto found = fields.find(http::field::expect);
    return found != fields.end() && boost::beast::iequals(found->value(), "100-continue");
}

std::size_t model_request_reader::put(std::string_view bytes, std::string& body) {
    auto& parser = parts_->parser;
    std::size_t taken = 0;
    while (taken < bytes.size() && !parser.is_done()) {
        auto& into = parser.get().body();
        into.data = parts_->piece.data();
        into.size = parts_->piece.size();
        into.more = true;
        boost::beast::error_code error;
        const std::size_t used = parser.put(
            boost::asio::const_buffer(bytes.data() + taken, bytes.size() - taken), error);
        body.append(parts_->piece.data(), parts_->piece.size() - into.size);
        taken += used;
        if (error == http::error::need_more) break;
        if (error == http::error::need_buffer || !error) {
            if (used == 0 && into.size == parts_->piece.size() && !parser.is_done()) break;
            continue;
        }
        bad_ = error == http::error::body_limit ? 413 : error == http::error::header_limit ? 431 : 400;
        break;
    }
    return taken;
}

model_request model_request_reader::head() const {
    const auto& from = parts_->parser.get();
    const auto text = [](boost::beast::string_view view) { return std::string(view.data(), view.size()); };
    model_request request{.method = text(from.method_string()), .target = text(from.target())};
    for (const auto& each : from) request.fields.emplace_back(text(each.name_string()), text(each.value()));
    const auto length = parts_->parser.content_length();
    if (length) request.body_size = *length;
    request.has_body = parts_->parser.chunked() || (length && *length > 0);
    if (!parts_->parser.chunked() && !length) request.body_size = 0;
    request.keep_alive = from.keep_alive();
    return request;
}

} // namespace pinfold
