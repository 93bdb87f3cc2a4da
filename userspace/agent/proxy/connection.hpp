// One connection of a cage to its proxy socket: requests read with limits of size and time, answers written.
#pragma once

#include "agent/proxy/ask_reader.hpp"
#include "base/unique_fd.hpp"
#include "ring/task.hpp"
#include "ring/timed_receive.hpp"

#include <chrono>
#include <optional>
#include <span>
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
    [[nodiscard]] const proxy_head& head() const noexcept { return reader_.head(); }
    [[nodiscard]] const std::optional<proxy_refusal>& refusal() const noexcept { return reader_.refusal(); }
    [[nodiscard]] bool keep_alive() const noexcept { return reader_.keep_alive(); }
    [[nodiscard]] const std::optional<std::uint64_t>& announced() const noexcept {
        return reader_.announced();
    } // bytes of the body
    // The body whole, of at most `most` bytes; nothing = refusal() says why.
    task<std::optional<std::string>> read_body(std::size_t most);
    // Of a long one, the next part; empty = whole. Nothing = refusal().
    task<std::optional<std::string>> read_part();

    // Awaited: 0, or -errno.
    send_all send(std::string_view bytes) { return {ring_, socket_.get(), std::as_bytes(std::span(bytes))}; }
    void hang_up() noexcept { ::shutdown(socket_.get(), SHUT_RDWR); }

private:
    // `if (!took(co_await more(limit)))`: nothing came.
    timed_receive more(std::chrono::nanoseconds limit);
    bool took(int size);

    uring& ring_;
    unique_fd socket_;
    std::size_t held_before_ = 0; // what is being received comes behind
    std::string held_;            // what came, and was not parsed yet
    ask_reader reader_;
    bool told_to_go_on_ = false;
};

[[nodiscard]] std::string to_bytes(const proxy_refusal& from);

} // namespace pinfold
