// A cage's requests, read from the bytes that came: what two readers could take for different requests is refused. Pure.
#pragma once

#include "agent/proxy/cage_ask.hpp"

#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <optional>
#include <string>
#include <utility>

namespace pinfold {

class ask_reader {
public:
    // The next request of the connection.
    void begin();

    // Takes from the front of `held` what it uses. True: the head is whole, or refusal() says why there is none.
    [[nodiscard]] bool take_head(std::string& held);
    [[nodiscard]] bool has_begun() const noexcept { return parser_ && parser_->got_some(); }
    [[nodiscard]] bool has_head() const noexcept { return parser_ && parser_->is_header_done(); }

    // The next part of the body.
    enum class part : std::uint8_t { more, some, whole, refused }; // more: bytes are wanted
    [[nodiscard]] part take_part(std::string& held, std::string& into);

    [[nodiscard]] const proxy_head& head() const noexcept { return head_; }
    [[nodiscard]] const std::optional<proxy_refusal>& refusal() const noexcept { return refusal_; }
    void refuse(int status, std::string text) { refusal_ = proxy_refusal{status, std::move(text)}; }
    [[nodiscard]] bool keep_alive() const noexcept { return keep_alive_; }
    [[nodiscard]] bool expects_continue() const noexcept { return expects_continue_; }
    // Bytes of the body; nothing = it comes in chunks.
    [[nodiscard]] const std::optional<std::uint64_t>& announced() const noexcept { return announced_; }

private:
    using parser_type = boost::beast::http::request_parser<boost::beast::http::buffer_body>;
    [[nodiscard]] bool keep_head();
    [[nodiscard]] parser_type& begun();

    std::optional<parser_type> parser_;
    proxy_head head_;
    std::optional<proxy_refusal> refusal_;
    std::optional<std::uint64_t> announced_;
    bool keep_alive_ = false, expects_continue_ = false;
};

} // namespace pinfold
