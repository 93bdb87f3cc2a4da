#include "incage/mcp/peers.hpp"

#include "base/unique_fd.hpp"

#include <arpa/inet.h>
#include <array>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <sys/socket.h>
#include <sys/un.h>

namespace pinfold::mcp {

namespace beast = boost::beast;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t largest_answer = std::uint64_t{64} << 20;

[[noreturn]] void give_up(const std::string& what) {
    throw std::runtime_error(what);
}

unique_fd connect_to(const std::string& path, std::chrono::seconds limit) {
    sockaddr_un name{.sun_family = AF_UNIX};
    if (path.size() >= sizeof name.sun_path) give_up("the path of the agent's socket is too long: " + path);
    std::memcpy(name.sun_path, path.data(), path.size());
    unique_fd made(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval patience{.tv_sec = limit.count(), .tv_usec = 0};
    if (!made || ::setsockopt(made.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
        ::connect(made.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0)
        give_up("this cage's agent does not answer at " + path + ": " + std::strerror(errno));
    return made;
}

void send_all(const unique_fd& to, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t sent = ::send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return; // a refusal may have come meanwhile: it is read
        bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
}

answer read_answer(const unique_fd& from) {
    beast::http::response_parser<beast::http::string_body> parser;
    parser.body_limit(largest_answer);
    parser.eager(true);
    std::string held;
    std::array<char, 16384> part{};
    while (!parser.is_done()) {
        const ssize_t size = ::recv(from.get(), part.data(), part.size(), 0);
        if (size < 0 && errno == EINTR) continue;
        beast::error_code error;
        if (size < 0)
            give_up(errno == EAGAIN ? "the agent took too long to answer"
                                    : std::string("the agent's answer broke off: ") + std::strerror(errno));
        if (size == 0) {
            parser.put_eof(error);
            if (error || !parser.is_done()) give_up("the agent's answer broke off");
            break;
        }
        held.append(part.data(), static_cast<std::size_t>(size));
        while (!held.empty() && !parser.is_done()) {
            const std::size_t used = parser.put(boost::asio::const_buffer(held.data(), held.size()), error);
            held.erase(0, used);
            if (error == beast::http::error::need_more || used == 0) break;
            if (error) give_up("the agent's answer is no HTTP: " + error.message());
        }
    }
    return {static_cast<int>(parser.get().result_int()), std::move(parser.get().body())};
}

} // namespace

answer peers::ask(const std::string& head, std::string_view body, std::chrono::seconds limit) const {
    const unique_fd to = connect_to(socket_, limit);
    send_all(to, head);
    send_all(to, body);
    return read_answer(to);
}

answer peers::get(const machine& at, const std::string& path, std::chrono::seconds limit) const {
    return ask("GET /peer/" + at.addr + path + " HTTP/1.1\r\nHost: cage\r\nConnection: close\r\n\r\n", {},
               limit);
}

answer peers::post(const machine& at, const std::string& path, std::string_view body,
                   std::chrono::seconds limit, std::string_view type) const {
    return ask("POST /peer/" + at.addr + path +
                   " HTTP/1.1\r\nHost: cage\r\nConnection: close\r\nContent-Type: " + std::string(type) +
                   "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n",
               body, limit);
}

std::vector<machine> peers::machines() const {
    const answer got = ask("GET /machines HTTP/1.1\r\nHost: cage\r\nConnection: close\r\n\r\n", {}, 10s);
    const auto list = nlohmann::json::parse(got.body, nullptr, false);
    std::vector<machine> made;
    if (list.is_array())
        for (const auto& each : list)
            if (each.is_object()) made.push_back({each.value("name", ""), each.value("addr", "")});
    if (made.empty()) give_up("the agent does not know its machines: " + got.body);
    return made;
}

machine peers::find(const std::string& name) const {
    const std::vector<machine> all = machines();
    if (name == "localhost") return all.front();
    for (const machine& each : all)
        if (each.name == name || each.addr == name) return each;
    for (const machine& each : all) // "pi5.home" is pi5 on the mesh "home"
        if (each.name == name.substr(0, name.find('.'))) return each;
    in6_addr scratch{};
    if (::inet_pton(AF_INET, name.c_str(), &scratch) == 1 ||
        ::inet_pton(AF_INET6, name.c_str(), &scratch) == 1)
        return {name, name};
    give_up("no machine is called '" + name + "'; list_agents shows who is there");
}

} // namespace pinfold::mcp
