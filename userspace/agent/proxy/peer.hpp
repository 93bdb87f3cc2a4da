// A connection to an agent: another machine's over the mesh, or our own over its socket. HTTP/1.1, one request at a time.
#pragma once

#include "base/unique_fd.hpp"
#include "ring/task.hpp"
#include "ring/uring.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
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
    task<> send(std::string_view bytes);
    // Something of the answer came within this time, or the end did.
    task<bool> answers_within(std::chrono::nanoseconds limit);
    task<answer> read_head(std::chrono::seconds limit);
    // What comes next of the body; empty = whole. Throws when it was cut.
    task<std::string> read_body();

    [[nodiscard]] bool is_open() const noexcept { return static_cast<bool>(socket_); }
    // Its answer came whole, and another question may follow.
    [[nodiscard]] bool may_be_kept() const noexcept;
    // Nothing was sent by the other side since the last answer, and it has not hung up: fit for a next request.
    [[nodiscard]] bool is_fresh() const noexcept;
    // Ends what waits, from outside: the asker has hung up.
    void cut() noexcept;

private:
    struct parts;
    task<int> receive_some(std::chrono::nanoseconds limit);
    task<bool> receive_more(std::chrono::seconds limit);

    uring& ring_;
    unique_fd socket_;
    std::string whom_;
    std::unique_ptr<parts> parts_;
};

} // namespace pinfold
