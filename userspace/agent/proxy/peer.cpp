#include "agent/proxy/peer.hpp"

#include "agent/proxy/grow.hpp"
#include "base/error.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <cstdint>
#include <cstring>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/un.h>

namespace pinfold {

namespace beast = boost::beast;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t read_size = std::size_t{32} * 1024;
constexpr std::chrono::seconds connect_time = 10s, send_time = 120s,
                               body_time = 11min; // a blocking SendMessage holds for ten

void set_patience(int socket, std::chrono::milliseconds limit) {
    const auto value = static_cast<unsigned>(limit.count());
    ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &value, sizeof value);
}

std::string text_of(const beast::http::fields& from, beast::http::field name) {
    const auto value = from[name];
    return {value.data(), value.size()};
}

} // namespace

struct peer::parts {
    using parser_type = beast::http::response_parser<beast::http::buffer_body>;

    parser_type& begun() {
        if (!parser) fail("read an answer: none was begun");
        return *parser;
    }

    std::optional<parser_type> parser;
    std::string held;            // what came, and was not parsed yet
    std::size_t held_before = 0; // what is being received comes behind
};

peer::peer(uring& ring) : ring_(ring), parts_(std::make_unique<parts>()) {}
peer::~peer() = default;

task<> peer::connect(const std::filesystem::path& path) {
    whom_ = path.native();
    sockaddr_un to{.sun_family = AF_UNIX};
    if (whom_.size() >= sizeof to.sun_path)
        fail("connect to {}: the path has {} bytes, and a socket's may have {}", whom_, whom_.size(),
             sizeof to.sun_path - 1);
    std::memcpy(to.sun_path, whom_.data(), whom_.size());
    socket_ = unique_fd(check(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), "make a socket"));
    check_negative(
        co_await pinfold::connect(ring_, socket_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to),
        "connect to {}", whom_);
}

task<> peer::connect(const std::string& address, std::uint16_t port) {
    whom_ = address;
    sockaddr_in6 v6{.sin6_family = AF_INET6, .sin6_port = htons(port)};
    sockaddr_in v4{.sin_family = AF_INET, .sin_port = htons(port)};
    const bool is_v6 = ::inet_pton(AF_INET6, address.c_str(), &v6.sin6_addr) == 1;
    if (!is_v6 && ::inet_pton(AF_INET, address.c_str(), &v4.sin_addr) != 1)
        fail("'{}' is no address", address);
    const auto* to = is_v6 ? reinterpret_cast<const sockaddr*>(&v6) : reinterpret_cast<const sockaddr*>(&v4);
    socket_ = unique_fd(
        check(::socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "make a socket"));
    const int on = 1;
    ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    // Not the ring's connect: on 6.18 it ended with 0 where the network had answered "unreachable".
    if (::connect(socket_.get(), to, is_v6 ? sizeof v6 : sizeof v4) < 0 && errno != EINPROGRESS)
        fail_errno(errno, "connect to the agent at {} port {}", address, port);
    // The kernel's own patience with a silent address is two minutes.
    set_patience(socket_.get(), connect_time);
    int error = 0;
    socklen_t size = sizeof error;
    if (const int events = co_await poll_once(ring_, socket_.get(), POLLOUT); events < 0)
        error = -events;
    else
        ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) fail_errno(error, "connect to the agent at {} port {}", address, port);
    set_patience(socket_.get(), send_time);
}

peer::sending peer::send(std::string_view bytes) {
    return {ring_, socket_.get(), bytes, whom_};
}

void peer::sending::await_resume() const {
    if (const int error = whole_.await_resume(); error < 0)
        fail_errno(-error, "send to the agent at {}", whom_);
}

timed_receive peer::listen(std::chrono::nanoseconds limit) {
    std::string& held = parts_->held;
    parts_->held_before = held.size();
    grow(held, held.size() + read_size);
    return receive_within(ring_, socket_.get(),
                          std::as_writable_bytes(std::span(held).subspan(parts_->held_before)), limit);
}

bool peer::answered(int result) {
    parts_->held.resize(parts_->held_before + static_cast<std::size_t>(std::max(result, 0)));
    return result != -ETIMEDOUT; // an end or an error is found again by who reads
}

bool peer::took(int result) {
    std::ignore = answered(result);
    if (result < 0) fail_errno(-result, "read the answer of the agent at {}", whom_);
    return result > 0;
}

task<peer::answer> peer::read_head(std::chrono::seconds limit) {
    beast::error_code error;
    do { // "100 Continue" and its kin are no answers
        auto& parser = parts_->parser.emplace();
        parser.body_limit(boost::none);
        while (!parser.is_header_done()) {
            if (!parts_->held.empty()) {
                const std::size_t used = parser.put(
                    boost::asio::const_buffer(parts_->held.data(), parts_->held.size()), error);
                parts_->held.erase(0, used);
            }
            if (parser.is_header_done()) break;
            if (error && error != beast::http::error::need_more)
                fail("the agent at {} does not speak HTTP: {}", whom_, error.message());
            if (!took(co_await listen(limit))) fail("the agent at {} hung up without an answer", whom_);
        }
    } while (parts_->begun().get().result_int() / 100 == 1);
    const auto& parser = parts_->begun();
    const auto& message = parser.get();
    answer made{.status = static_cast<int>(message.result_int()),
                .content_type = text_of(message.base(), beast::http::field::content_type),
                .cache_control = text_of(message.base(), beast::http::field::cache_control),
                .keep_alive = parser.keep_alive()};
    if (const auto length = parser.content_length()) made.length = *length;
    co_return made;
}

task<std::string> peer::read_body() {
    auto& parser = parts_->begun();
    std::string& held = parts_->held;
    std::string part;
    while (!parser.is_done()) {
        beast::error_code error;
        if (held.empty() && !took(co_await listen(body_time))) {
            parser.put_eof(error);
            if (error) fail("the answer of the agent at {} was cut", whom_);
            break;
        }
        grow(part, std::min(held.size(), read_size)); // no part is longer than what came
        auto& body = parser.get().body();
        body = {part.data(), part.size(), true};
        const std::size_t used = parser.put(boost::asio::const_buffer(held.data(), held.size()), error);
        held.erase(0, used);
        part.resize(part.size() - body.size);
        if (error && error != beast::http::error::need_buffer && error != beast::http::error::need_more)
            fail("the answer of the agent at {} is no HTTP: {}", whom_, error.message());
        if (!part.empty()) co_return part;
        if (used == 0 && !parser.is_done() &&
            !took(co_await listen(body_time))) // the rest of a chunk's frame
            fail("the answer of the agent at {} was cut", whom_);
    }
    co_return std::string();
}

bool peer::is_whole() const noexcept {
    return parts_->parser && parts_->parser->is_done();
}

// One whose answer was left in the middle would answer the next question with the rest of it.
bool peer::may_be_kept() const noexcept {
    const auto& parser = parts_->parser;
    return socket_ && parts_->held.empty() && parser && parser->is_done() && parser->keep_alive();
}

bool peer::is_fresh() const noexcept {
    char byte = 0;
    return socket_ && parts_->held.empty() && ::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
           (errno == EAGAIN || errno == EWOULDBLOCK);
}

void peer::cut() noexcept {
    if (socket_) ::shutdown(socket_.get(), SHUT_RDWR);
}

} // namespace pinfold
