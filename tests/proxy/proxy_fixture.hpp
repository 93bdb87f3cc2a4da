// A proxy between raw connections, as a cage makes them, and agents that note every byte they get. In a network namespace
// of its own without any link.
#pragma once

#include "agent/proxy/proxy.hpp"
#include "base/unique_fd.hpp"
#include "support/time_scale.hpp"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace pinfold::test {

inline std::chrono::seconds patience() {
    return std::chrono::seconds(10) * time_scale();
}

// Looks until it is so, or patience ends.
bool eventually(const std::function<bool()>& is_so);

// A connection with time-outs; what it hears is text.
class wire_end {
public:
    explicit wire_end(unique_fd socket);
    void say(std::string_view bytes) const;
    // Until this text has come; all that came. Shorter when the other side ended or was silent for long.
    std::string hear_until(std::string_view text);
    std::string hear(std::size_t count);
    std::string hear_all(); // until the end; throws where that does not come
    void stop_sending() const;
    [[nodiscard]] int fd() const noexcept { return socket_.get(); }

private:
    unique_fd socket_;
    std::string heard_;
};

[[nodiscard]] wire_end connect_to(const std::filesystem::path& socket);

// An agent: answers every request by `answer`, which may take its time, and keeps what it got.
class fake_agent {
public:
    struct request {
        std::string head; // with the empty line
        std::string body;
        wire_end* to;
    };
    using answerer = std::function<void(request&)>;

    explicit fake_agent(const std::filesystem::path& socket, answerer how = say_ok);
    fake_agent(const std::string& address, std::uint16_t port, answerer how = say_ok);
    fake_agent(const fake_agent&) = delete;
    fake_agent& operator=(const fake_agent&) = delete;
    ~fake_agent();

    static void say_ok(request& to);               // 200 {"ok":true}
    void leave_bodies() { leaves_bodies_ = true; } // the answerer hears them itself, when it likes

    [[nodiscard]] std::vector<std::string> heads() const;
    [[nodiscard]] std::vector<std::string> bodies() const;
    [[nodiscard]] std::size_t count() const;
    [[nodiscard]] std::size_t bytes() const; // all that arrived

private:
    void serve();
    void converse(unique_fd socket);

    unique_fd listener_;
    answerer how_;
    mutable std::mutex guard_;
    std::vector<std::string> heads_, bodies_;
    std::size_t bytes_ = 0;
    std::atomic<bool> ending_ = false, leaves_bodies_ = false;
    std::vector<std::thread> conversations_;
    std::vector<int> open_;
    std::thread thread_;
};

// The proxy on a ring of its own, in a thread.
class proxy_fixture {
public:
    proxy_fixture();
    proxy_fixture(const proxy_fixture&) = delete;
    proxy_fixture& operator=(const proxy_fixture&) = delete;
    ~proxy_fixture();

    // A cage's directory with its socket.
    std::filesystem::path open(const std::string& name, proxy_asker who);
    [[nodiscard]] std::filesystem::path own_socket() const { return folder_ / "api.sock"; }
    [[nodiscard]] wire_end visit(const std::string& name) const {
        return connect_to(folder_ / name / "proxy.sock");
    }
    void on_ring(std::function<void(proxy&)> act); // waits for its end
    static constexpr std::uint16_t port = 7387;
    static constexpr const char* other = "fd12::7"; // another machine, on the namespace's loopback

private:
    void run();

    std::filesystem::path folder_;
    std::mutex guard_;
    std::condition_variable done_;
    std::deque<std::function<void(proxy&)>> acts_;
    std::size_t acted_ = 0, asked_ = 0;
    unique_fd wake_;
    std::atomic<bool> ready_ = false, ending_ = false;
    std::thread thread_;
};

} // namespace pinfold::test
