// A connection to an agent: another machine's over the mesh, or our own over its socket. HTTP/1.1, one request at a time.
#pragma once

#include "base/unique_fd.hpp"
#include "ring/task.hpp"
#include "ring/timed_receive.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace pinfold {

class peer {
public:
    struct answer {
        int status = 0;
        std::string content_type;
        std::string cache_control;
        std::optional<std::uint64_t> length; // nothing = chunked, or until the end
        bool keep_alive = false;
    };

    explicit peer(uring& ring);
    peer(const peer&) = delete;
    peer& operator=(const peer&) = delete;
    ~peer();

    // Each throws: what was attempted, on whom, why.
    task<> connect(const std::filesystem::path& socket);
    task<> connect(const std::string& address, std::uint16_t port);
    class sending;
    sending send(std::string_view bytes);
    // `if (answered(co_await listen(limit)))`: something of the answer came within this time, or the end did.
    timed_receive listen(std::chrono::nanoseconds limit);
    bool answered(int result);
    task<answer> read_head(std::chrono::seconds limit);
    // What comes next of the body; empty = whole. Throws when it was cut.
    task<std::string> read_body();
    [[nodiscard]] bool is_whole() const noexcept; // read_body() would say no more

    [[nodiscard]] bool is_open() const noexcept { return static_cast<bool>(socket_); }
    // Its answer came whole, and another question may follow.
    [[nodiscard]] bool may_be_kept() const noexcept;
    // Nothing was sent by the other side since the last answer, and it has not hung up: fit for a next request.
    [[nodiscard]] bool is_fresh() const noexcept;
    // Ends what waits, from outside: the asker has hung up.
    void cut() noexcept;

private:
    struct parts;
    bool took(int result); // of listen(): false at the end; throws where it failed

    uring& ring_;
    unique_fd socket_;
    std::string whom_;
    std::unique_ptr<parts> parts_;
};

// Throws where it failed.
class [[nodiscard]] peer::sending {
public:
    sending(uring& ring, int fd, std::string_view bytes, const std::string& whom)
        : whole_(ring, fd, std::as_bytes(std::span(bytes))), whom_(whom) {}

    [[nodiscard]] bool await_ready() const noexcept { return whole_.await_ready(); }
    void await_suspend(std::coroutine_handle<> caller) { whole_.await_suspend(caller); }
    void await_resume() const;

private:
    send_all whole_;
    const std::string& whom_;
};

} // namespace pinfold
