#include "proxy_load.hpp"

#include "base/error.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <string_view>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <unordered_map>
#include <utility>

namespace pinfold::bench {

namespace {

using clock = std::chrono::steady_clock;

// The bytes of the first message in `held`, head and body; 0 = it is not whole. Only Content-Length is known here.
std::size_t message_size(std::string_view held) {
    const std::size_t end = held.find("\r\n\r\n");
    if (end == std::string_view::npos) return 0;
    const std::string_view field = "Content-Length: ";
    std::size_t length = 0;
    if (const std::size_t at = held.substr(0, end).find(field); at != std::string_view::npos)
        std::from_chars(held.data() + at + field.size(), held.data() + end, length);
    const std::size_t whole = end + 4 + length;
    return held.size() >= whole ? whole : 0;
}

void watch(int epoll, int fd) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    check(::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), "watch a connection");
}

// False: it is at its end.
bool take(int fd, std::string& held) {
    std::array<char, 65536> part{};
    const ssize_t size = ::recv(fd, part.data(), part.size(), MSG_DONTWAIT);
    if (size > 0) held.append(part.data(), static_cast<std::size_t>(size));
    return size > 0 || (size < 0 && errno == EAGAIN);
}

bool say(int fd, std::string_view text) {
    return ::send(fd, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}

struct conversation {
    unique_fd socket;
    std::string held;
    clock::time_point asked;
};

} // namespace

unique_fd connect_local(const std::filesystem::path& socket, bool wait) {
    sockaddr_un name{.sun_family = AF_UNIX};
    std::memcpy(name.sun_path, socket.c_str(), socket.native().size());
    unique_fd made(check(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | (wait ? 0 : SOCK_NONBLOCK), 0),
                         "make a socket"));
    const int result = ::connect(made.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name);
    if (result != 0 && !wait) return {};
    check(result, "connect to {}", socket.native());
    return made;
}

load_result put_load(const std::filesystem::path& socket, std::string_view question, std::size_t connections,
                     std::chrono::milliseconds warm_up, std::chrono::milliseconds time) {
    const unique_fd epoll(check(::epoll_create1(EPOLL_CLOEXEC), "make an epoll"));
    std::unordered_map<int, conversation> all;
    load_result made;
    made.latencies_us.reserve(1U << 20U);
    for (std::size_t i = 0; i < connections; ++i) {
        conversation one{.socket = connect_local(socket), .held = {}, .asked = clock::now()};
        watch(epoll.get(), one.socket.get());
        if (!say(one.socket.get(), question)) fail("a question was not taken");
        const int fd = one.socket.get();
        all.emplace(fd, std::move(one));
    }
    const auto begin = clock::now() + warm_up, end = begin + time;
    std::array<epoll_event, 256> events{};
    for (auto now = clock::now(); now < end && !all.empty(); now = clock::now()) {
        const int count = ::epoll_wait(epoll.get(), events.data(), static_cast<int>(events.size()), 100);
        for (int i = 0; i < count; ++i) {
            conversation& one = all.at(events.at(static_cast<std::size_t>(i)).data.fd);
            bool lives = take(one.socket.get(), one.held);
            if (const std::size_t size = message_size(one.held); lives && size > 0) {
                const auto answered = clock::now();
                const bool good = one.held.starts_with("HTTP/1.1 200");
                if (!good) ++made.failed;
                if (good && answered >= begin)
                    made.latencies_us.push_back(
                        std::chrono::duration<double, std::micro>(answered - one.asked).count());
                one.held.erase(0, size);
                one.asked = clock::now();
                lives = say(one.socket.get(), question);
            }
            if (lives) continue;
            ++made.failed;
            all.erase(one.socket.get());
        }
    }
    made.requests_s = static_cast<double>(made.latencies_us.size()) /
                      std::chrono::duration<double>(time).count();
    return made;
}

void serve_upstream(const unique_fd& listener) {
    const std::string body = fmt::format(R"({{"jsonrpc":"2.0","id":1,"result":{{"text":"{}"}}}})",
                                         std::string(980, 'x'));
    const std::string answer = fmt::format(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}", body.size(),
        body);
    const unique_fd epoll(check(::epoll_create1(EPOLL_CLOEXEC), "make an epoll"));
    watch(epoll.get(), listener.get());
    std::unordered_map<int, conversation> all;
    std::array<epoll_event, 256> events{};
    while (true) {
        const int count = ::epoll_wait(epoll.get(), events.data(), static_cast<int>(events.size()), -1);
        for (int i = 0; i < count; ++i) {
            const int fd = events.at(static_cast<std::size_t>(i)).data.fd;
            if (fd == listener.get()) {
                unique_fd made(::accept4(fd, nullptr, nullptr, SOCK_CLOEXEC));
                if (!made) continue;
                watch(epoll.get(), made.get());
                const int known = made.get();
                all.emplace(known, conversation{.socket = std::move(made), .held = {}, .asked = {}});
                continue;
            }
            conversation& one = all.at(fd);
            bool lives = take(fd, one.held);
            for (std::size_t size = 0; lives && (size = message_size(one.held)) > 0;) {
                one.held.erase(0, size);
                lives = say(fd, answer);
            }
            if (!lives) all.erase(fd);
        }
    }
}

} // namespace pinfold::bench
