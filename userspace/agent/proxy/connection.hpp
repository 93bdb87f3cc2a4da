// One connection of a cage to its proxy socket: requests read with limits of size and time, answers written.
#pragma once

#include "agent/event.hpp"
#include "agent/proxy/cage_ask.hpp"
#include "base/unique_fd.hpp"
#include "ring/task.hpp"
#include "ring/uring.hpp"

#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace pinfold {

class proxy_connection {
public:
    proxy_connection(uring& ring, unique_fd socket) : ring_(ring), socket_(std::move(socket)) {}
    proxy_connection(const proxy_connection&) = delete;
    proxy_connection& operator=(const proxy_connection&) = delete;
    ~proxy_connection() = default;

    [[nodiscard]] int fd() const noexcept { return socket_.get(); }

    // The next request's head. False = it has left, or refusal() says why this is no request.
    task<bool> read_head();
    [[nodiscard]] const proxy_head& head() const noexcept { return head_; }
    [[nodiscard]] const std::optional<proxy_refusal>& refusal() const noexcept { return refusal_; }
    [[nodiscard]] bool keep_alive() const noexcept { return keep_alive_; }
    [[nodiscard]] std::optional<std::uint64_t> announced() const noexcept {
        return announced_;
    } // bytes of the body
    // The body whole, of at most `most` bytes; nothing = refusal() says why.
    task<std::optional<std::string>> read_body(std::size_t most);
    // Of a long one, the next part; empty = whole. Nothing = refusal().
    task<std::optional<std::string>> read_part();

    task<bool> send(std::string_view bytes);
    void hang_up() noexcept { ::shutdown(socket_.get(), SHUT_RDWR); }

private:
    using parser_type = boost::beast::http::request_parser<boost::beast::http::buffer_body>;

    task<bool> receive_more(std::chrono::seconds limit);
    [[nodiscard]] bool take_head();
    void refuse(int status, std::string text) { refusal_ = proxy_refusal{status, std::move(text)}; }

    uring& ring_;
    unique_fd socket_;
    std::string held_; // what came, and was not parsed yet
    std::unique_ptr<parser_type> parser_;
    proxy_head head_;
    std::optional<proxy_refusal> refusal_;
    std::optional<std::uint64_t> announced_;
    bool keep_alive_ = false;
    bool expects_continue_ = false;
};

[[nodiscard]] std::string to_bytes(const proxy_refusal& from);

} // namespace pinfold
