// A real pinfold-agent on a socket of its own, started with an empty environment, and plain ways to speak to it.
#pragma once

#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "support/time_scale.hpp"

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <pinfold/stdio.h>
#include <poll.h>
#include <sstream>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <vector>

namespace pinfold::test {

class scratch_directory {
public:
    scratch_directory() {
        std::string pattern = "/tmp/pinfold-test-XXXXXX";
        if (::mkdtemp(pattern.data()) == nullptr) fail_errno(errno, "make a directory in /tmp");
        path_ = pattern;
    }
    scratch_directory(const scratch_directory&) = delete;
    scratch_directory& operator=(const scratch_directory&) = delete;
    ~scratch_directory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
};

template <typename Condition>
bool eventually(Condition condition, std::chrono::milliseconds limit = std::chrono::seconds(10)) {
    for (const auto end = std::chrono::steady_clock::now() + limit * time_scale();
         std::chrono::steady_clock::now() < end;) {
        if (condition()) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return condition();
}

inline unique_fd connect_unix(const std::filesystem::path& path) {
    sockaddr_un address{.sun_family = AF_UNIX};
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    unique_fd connection(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        return {};
    return connection;
}

inline void send_text(const unique_fd& to, std::string_view text) {
    while (!text.empty()) {
        const ssize_t sent = ::send(to.get(), text.data(), text.size(), MSG_NOSIGNAL);
        if (sent <= 0) return;
        text.remove_prefix(static_cast<std::size_t>(sent));
    }
}

// What comes until the end, or until `limit` without anything.
inline std::string receive_all(const unique_fd& from,
                               std::chrono::milliseconds limit = std::chrono::seconds(5)) {
    std::string all;
    std::array<char, 65536> buffer{};
    for (;;) {
        pollfd ready{from.get(), POLLIN, 0};
        if (::poll(&ready, 1, static_cast<int>(limit.count()) * time_scale()) <= 0) return all;
        const ssize_t got = ::recv(from.get(), buffer.data(), buffer.size(), 0);
        if (got <= 0) return all;
        all.append(buffer.data(), static_cast<std::size_t>(got));
    }
}

class agent_fixture {
public:
    explicit agent_fixture(std::vector<std::string> more = {}) {
        std::filesystem::create_directory(directory_.path() / "home");
        start(std::move(more));
    }
    agent_fixture(const agent_fixture&) = delete;
    agent_fixture& operator=(const agent_fixture&) = delete;
    ~agent_fixture() { stop(); }

    void start(std::vector<std::string> more = {}) {
        const char* other = std::getenv(
            "PINFOLD_TEST_AGENT"); // of the mutation matrix: with one refusal left out
        std::vector<std::string> arguments{other != nullptr ? other : PINFOLD_BIN_DIR "/pinfold-agent",
                                           "--keeper",
                                           keeper_socket().native(),
                                           "--state",
                                           (directory_.path() / "state").native(),
                                           "--api",
                                           api().native(),
                                           "--resolv-conf",
                                           (directory_.path() / "resolv.conf").native()};
        arguments.insert(arguments.end(), more.begin(), more.end());
        pid_ = spawn(arguments);
        // A killed agent's socket may still take connections: the kernel takes its ring apart a little later.
        const std::string own = fmt::format("\"pid\":{},", pid_);
        if (!eventually(
                [&] { return connect_unix(api()) && get("/v1/version").find(own) != std::string::npos; }))
            fail("the agent does not listen: {}", log());
    }
    int stop(int number = SIGTERM) {
        if (pid_ <= 0) return -1;
        int status = 0;
        ::kill(pid_, number);
        if (!eventually([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; },
                        std::chrono::seconds(20))) {
            ::kill(pid_, SIGKILL);
            ::waitpid(pid_, &status, 0);
        }
        pid_ = -1;
        return status;
    }

    [[nodiscard]] std::filesystem::path directory() const { return directory_.path(); }
    [[nodiscard]] std::filesystem::path api() const { return directory_.path() / "run/api.sock"; }
    [[nodiscard]] std::filesystem::path keeper_socket() const { return directory_.path() / "keeper.sock"; }
    [[nodiscard]] pid_t pid() const { return pid_; }
    [[nodiscard]] std::string log() const {
        std::ifstream from(directory_.path() / "agent.log");
        return {std::istreambuf_iterator<char>(from), {}};
    }

    // One request as it stands, and the whole answer. The connection is closed by the agent or after a while.
    [[nodiscard]] std::string raw(std::string_view request,
                                  std::chrono::milliseconds limit = std::chrono::seconds(5)) const {
        const unique_fd connection = connect_unix(api());
        send_text(connection, request);
        return receive_all(connection, limit);
    }
    [[nodiscard]] std::string get(std::string_view path) const {
        return raw(fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path),
                   std::chrono::seconds(30));
    }
    [[nodiscard]] std::string post(std::string_view path, std::string_view body,
                                   std::string_view fields = "") const {
        return raw(post_head(path, body, fields) + std::string(body), std::chrono::seconds(10));
    }
    [[nodiscard]] static std::string post_head(std::string_view path, std::string_view body,
                                               std::string_view fields = "") {
        return fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\n{}Content-Type: "
                           "application/json\r\nContent-Length: {}\r\n\r\n",
                           path, fields.empty() ? "Connection: close\r\n" : fields, body.size());
    }

private:
    pid_t spawn(const std::vector<std::string>& arguments) {
        const std::string log = (directory_.path() / "agent.log").native();
        const std::string home = "HOME=" + (directory_.path() / "home").native();
        const pid_t pid = ::fork();
        if (pid != 0) return pid;
        const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
        ::dup2(::open("/dev/null", O_RDONLY), 0);
        ::dup2(out, 1);
        ::dup2(out, 2);
        std::vector<char*> argv;
        argv.reserve(arguments.size() + 1);
        for (const std::string& each : arguments) argv.push_back(const_cast<char*>(each.c_str()));
        argv.push_back(nullptr);
        std::array<char*, 3> environment{const_cast<char*>("PATH=/usr/bin:/bin"),
                                         const_cast<char*>(home.c_str()), nullptr};
        ::execve(argv[0], argv.data(), environment.data());
        ::_exit(127);
    }

    scratch_directory directory_;
    pid_t pid_ = -1;
};

// The client's side of a stdio connection.
class stdio_peer {
public:
    struct frame {
        std::uint32_t type = 0;
        std::string payload;
    };

    stdio_peer(const std::filesystem::path& api, std::string_view path, std::string_view body)
        : connection_(connect_unix(api)) {
        send_text(connection_,
                  agent_fixture::post_head(path, body, "Connection: Upgrade\r\nUpgrade: pinfold-stdio\r\n") +
                      std::string(body));
        while (held_.find("\r\n\r\n") == std::string::npos && more()) {
        }
        const std::size_t end = held_.find("\r\n\r\n");
        head_ = held_.substr(0, end);
        held_.erase(0, end == std::string::npos ? held_.size() : end + 4);
    }

    [[nodiscard]] const std::string& head() const { return head_; }
    [[nodiscard]] const unique_fd& connection() const { return connection_; }
    void hang_up() { connection_.reset(); }

    void send(std::uint32_t type, std::string_view payload) {
        std::array<unsigned char, PINFOLD_FRAME_HEADER> header{};
        pinfold_put_header(header.data(), type, static_cast<std::uint32_t>(payload.size()));
        send_text(connection_, std::string(reinterpret_cast<const char*>(header.data()), header.size()) +
                                   std::string(payload));
    }
    void send_number(std::uint32_t type, std::uint32_t number) {
        std::array<unsigned char, 4> bytes{};
        pinfold_put32(bytes.data(), number);
        send(type, {reinterpret_cast<const char*>(bytes.data()), 4});
    }

    // The next frame; type 0 at the end.
    frame next() {
        for (;;) {
            std::uint32_t length = 0;
            if (held_.size() >= PINFOLD_FRAME_HEADER) {
                const std::uint32_t type = pinfold_get_header(
                    reinterpret_cast<const unsigned char*>(held_.data()), &length);
                if (held_.size() >= PINFOLD_FRAME_HEADER + length) {
                    frame found{type, held_.substr(PINFOLD_FRAME_HEADER, length)};
                    held_.erase(0, PINFOLD_FRAME_HEADER + length);
                    return found;
                }
            }
            if (!more()) return {};
        }
    }
    // All of one kind until the last frame, which is kept in last().
    std::string collect(std::uint32_t type) {
        std::string all;
        for (;;) {
            last_ = next();
            if (last_.type == type) all += last_.payload;
            if (last_.type == PINFOLD_FRAME_EXIT || last_.type == PINFOLD_FRAME_ERROR || last_.type == 0)
                return all;
        }
    }
    frame wait_for(std::uint32_t type) {
        for (;;) {
            frame one = next();
            if (one.type == type || one.type == 0) return one;
        }
    }
    [[nodiscard]] const frame& last() const { return last_; }

private:
    bool more() {
        std::array<char, 65536> buffer{};
        pollfd ready{connection_.get(), POLLIN, 0};
        if (::poll(&ready, 1, 20000 * time_scale()) <= 0) return false;
        const ssize_t got = ::recv(connection_.get(), buffer.data(), buffer.size(), 0);
        if (got > 0) held_.append(buffer.data(), static_cast<std::size_t>(got));
        return got > 0;
    }

    unique_fd connection_;
    std::string head_, held_;
    frame last_;
};

} // namespace pinfold::test
