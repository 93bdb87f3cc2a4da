#include "proxy/proxy_fixture.hpp"

#include "base/error.hpp"
#include "base/file.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace pinfold::test {

namespace {

// No test of this suite can reach anything: the whole process is in a namespace with a loopback and nothing else.
void leave_the_network() {
    static const bool left = [] {
        check(::unshare(CLONE_NEWNET), "leave the machine's network");
        for (const char* command : {"ip link set lo up", "ip -6 addr add fd12::7/128 dev lo nodad"})
            if (std::system(command) != 0) fail("{} failed", command);
        return true;
    }();
    (void)left;
}

void limit_time(int socket) {
    const timeval limit{.tv_sec = patience().count(), .tv_usec = 0};
    ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

sockaddr_un name_of(const std::filesystem::path& path) {
    sockaddr_un name{.sun_family = AF_UNIX};
    std::memcpy(name.sun_path, path.c_str(), path.native().size());
    return name;
}

// The bytes of the body that the head announces; chunked ones are read to their last chunk.
bool is_chunked(const std::string& head) {
    return head.find("Transfer-Encoding: chunked") != std::string::npos;
}

std::size_t length_of(const std::string& head) {
    const std::size_t at = head.find("Content-Length: ");
    return at == std::string::npos ? 0 : std::strtoull(head.c_str() + at + 16, nullptr, 10);
}

} // namespace

bool eventually(const std::function<bool()>& is_so) {
    const auto limit = std::chrono::steady_clock::now() + patience();
    while (!is_so()) {
        if (std::chrono::steady_clock::now() > limit) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
}

wire_end::wire_end(unique_fd socket) : socket_(std::move(socket)) {
    limit_time(socket_.get());
}

void wire_end::say(std::string_view bytes) const {
    while (!bytes.empty()) {
        const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent <= 0) return; // the other side has left, which the test sees by what it hears
        bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
}

std::string wire_end::hear_until(std::string_view text) {
    std::array<char, 65536> part{};
    std::size_t found = 0;
    while ((found = heard_.find(text)) == std::string::npos) {
        const ssize_t size = ::recv(socket_.get(), part.data(), part.size(), 0);
        if (size <= 0) return std::exchange(heard_, {});
        heard_.append(part.data(), static_cast<std::size_t>(size));
    }
    std::string taken = heard_.substr(0, found + text.size());
    heard_.erase(0, taken.size());
    return taken;
}

std::string wire_end::hear(std::size_t count) {
    std::array<char, 65536> part{};
    while (heard_.size() < count) {
        const ssize_t size = ::recv(socket_.get(), part.data(), part.size(), 0);
        if (size <= 0) return std::exchange(heard_, {});
        heard_.append(part.data(), static_cast<std::size_t>(size));
    }
    std::string taken = heard_.substr(0, count);
    heard_.erase(0, count);
    return taken;
}

std::string wire_end::hear_all() {
    std::array<char, 65536> part{};
    ssize_t size = 0;
    while ((size = ::recv(socket_.get(), part.data(), part.size(), 0)) > 0)
        heard_.append(part.data(), static_cast<std::size_t>(size));
    if (size < 0 && errno == EAGAIN) fail("the other side is silent and has not ended, after: {}", heard_);
    return std::exchange(heard_, {});
}

void wire_end::stop_sending() const {
    ::shutdown(socket_.get(), SHUT_WR);
}

wire_end connect_to(const std::filesystem::path& path) {
    unique_fd made(check(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), "make a socket"));
    const sockaddr_un name = name_of(path);
    check(::connect(made.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), "connect to {}",
          path.native());
    return wire_end(std::move(made));
}

fake_agent::fake_agent(const std::filesystem::path& path, answerer how) : how_(std::move(how)) {
    ::unlink(path.c_str());
    listener_ = unique_fd(check(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), "make a socket"));
    const sockaddr_un name = name_of(path);
    check(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), "bind {}",
          path.native());
    serve();
}

fake_agent::fake_agent(const std::string& address, std::uint16_t port, answerer how) : how_(std::move(how)) {
    leave_the_network();
    listener_ = unique_fd(check(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), "make a socket"));
    const int on = 1;
    ::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in6 name{.sin6_family = AF_INET6, .sin6_port = htons(port)};
    ::inet_pton(AF_INET6, address.c_str(), &name.sin6_addr);
    check(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), "bind {}", address);
    serve();
}

void fake_agent::serve() {
    check(::listen(listener_.get(), 1024), "listen");
    thread_ = std::thread([this] {
        while (!ending_) {
            unique_fd made(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
            if (!made) continue;
            const std::lock_guard lock(guard_);
            open_.push_back(made.get());
            conversations_.emplace_back([this, socket = std::make_shared<unique_fd>(std::move(made))] {
                converse(std::move(*socket));
            });
        }
    });
}

fake_agent::~fake_agent() {
    ending_ = true;
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
    {
        const std::lock_guard lock(guard_);
        for (const int each : open_) ::shutdown(each, SHUT_RDWR);
    }
    for (std::thread& each : conversations_) each.join();
}

void fake_agent::converse(unique_fd socket) {
    const int fd = socket.get();
    wire_end end(std::move(socket));
    while (!ending_) {
        const std::string head = end.hear_until("\r\n\r\n");
        {
            const std::lock_guard lock(guard_);
            bytes_ += head.size();
        }
        if (!head.ends_with("\r\n\r\n")) break;
        std::string body;
        if (leaves_bodies_)
            body.clear();
        else if (is_chunked(head))
            body = end.hear_until("\r\n0\r\n\r\n");
        else
            body = end.hear(length_of(head));
        {
            const std::lock_guard lock(guard_);
            bytes_ += body.size();
            heads_.push_back(head);
            bodies_.push_back(body);
        }
        request asked{head, body, &end};
        how_(asked);
    }
    const std::lock_guard lock(guard_);
    std::erase(open_, fd);
}

void fake_agent::say_ok(request& to) {
    to.to->say(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{\"ok\":true}");
}

std::vector<std::string> fake_agent::heads() const {
    const std::lock_guard lock(guard_);
    return heads_;
}

std::vector<std::string> fake_agent::bodies() const {
    const std::lock_guard lock(guard_);
    return bodies_;
}

std::size_t fake_agent::count() const {
    return heads().size();
}

std::size_t fake_agent::bytes() const {
    const std::lock_guard lock(guard_);
    return bytes_;
}

proxy_fixture::proxy_fixture() : wake_(::eventfd(0, EFD_CLOEXEC)) {
    leave_the_network();
    std::string folder = std::filesystem::temp_directory_path() / "pinfold-proxy-XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) fail_errno(errno, "make {}", folder);
    folder_ = folder;
    std::ofstream(folder_ / "peers.json")
        << R"({"machines":[{"name":"laptop","addr":"fd12::1"},{"name":"pi5","addr":")" << other
        << R"("},{"name":"gone","addr":"fd12::9"}]})";
    thread_ = std::thread([this] { run(); });
    while (!ready_) std::this_thread::yield();
}

void proxy_fixture::run() {
    uring ring;
    task_group group([](const std::exception_ptr&) {});
    proxy made(ring, group,
               {.machines = {.peers = folder_ / "peers.json", .name = "laptop"},
                .own_agent = own_socket(),
                .port = port});
    group.spawn(
        [](proxy_fixture* self, uring* on, proxy* all) -> task<> {
            std::uint64_t count = 0;
            while (!self->ending_) {
                std::ignore = co_await read_some(*on, self->wake_.get(),
                                                 std::as_writable_bytes(std::span(&count, 1)));
                const std::lock_guard lock(self->guard_);
                for (auto& act : std::exchange(self->acts_, {})) {
                    act(*all);
                    ++self->acted_;
                }
                self->done_.notify_all();
            }
            all->stop();
        },
        this, &ring, &made);
    ready_ = true;
    while (group.running() > 0) ring.run_once(true);
}

void proxy_fixture::on_ring(std::function<void(proxy&)> act) {
    std::unique_lock lock(guard_);
    acts_.push_back(std::move(act));
    const std::size_t mine = ++asked_;
    const std::uint64_t one = 1;
    std::ignore = ::write(wake_.get(), &one, sizeof one);
    done_.wait(lock, [&] { return acted_ >= mine; });
}

proxy_fixture::~proxy_fixture() {
    ending_ = true;
    const std::uint64_t one = 1;
    std::ignore = ::write(wake_.get(), &one, sizeof one);
    thread_.join();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
}

std::filesystem::path proxy_fixture::open(const std::string& name, proxy_asker who) {
    const std::filesystem::path directory = folder_ / name;
    on_ring([&](proxy& all) { all.open(directory, [who] { return std::optional(who); }); });
    return directory;
}

} // namespace pinfold::test
