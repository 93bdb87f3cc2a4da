// The agent's API as an app uses it: the list of sessions again and again, one session, and events to many readers.
#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "bench/figures.hpp"

#include <array>
#include <atomic>
#include <cstring>
#include <poll.h>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>

namespace {

using namespace pinfold;
using bench::now_ns;

struct arguments {
    std::string api;     // socket
    std::string session; // whose events are followed
    int runs = 3;
    int readers = 200;
    int at_once = 4; // connections that ask for the list
    int events = 100;
    double seconds = 2; // of each round
};

unique_fd connect_to(const std::string& api) {
    sockaddr_un address{.sun_family = AF_UNIX};
    std::strncpy(address.sun_path, api.c_str(), sizeof address.sun_path - 1);
    unique_fd made(check(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), "make a socket"));
    check(::connect(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), "connect to {}",
          api);
    return made;
}

void send_all_of(const unique_fd& to, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t sent = ::send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent <= 0) fail("the agent hung up");
        bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
}

// One connection with requests one after the other.
class asker {
public:
    explicit asker(const std::string& api) : connection_(connect_to(api)), buffer_(std::size_t{1} << 20) {}

    // Bytes of the answer's body; its status must be 200.
    std::size_t ask(std::string_view request) {
        send_all_of(connection_, request);
        std::size_t got = 0, body = 0, size = 0;
        while (size == 0 || got < body + size) {
            const std::size_t at = size == 0 ? got : 0; // a body is counted, not kept
            const ssize_t more = ::recv(connection_.get(), buffer_.data() + at, buffer_.size() - at, 0);
            if (more <= 0) fail("the agent hung up in the middle of an answer");
            got += static_cast<std::size_t>(more);
            if (size > 0) continue;
            const std::string_view seen(buffer_.data(), got);
            const std::size_t end = seen.find("\r\n\r\n");
            if (end == std::string_view::npos) continue;
            if (!seen.starts_with("HTTP/1.1 200")) fail("the agent says {}", seen.substr(0, 300));
            const std::size_t length = seen.find("Content-Length: ");
            if (length > end) fail("an answer without a length");
            size = static_cast<std::size_t>(std::atoll(buffer_.data() + length + 16));
            body = end + 4;
        }
        return size;
    }

private:
    unique_fd connection_;
    std::vector<char> buffer_;
};

std::string get(const std::string& path) {
    return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
}

// Requests a second of all connections together.
double rate(const arguments& given, const std::string& path, std::size_t& size) {
    std::atomic<std::uint64_t> count = 0, bytes = 0;
    std::atomic<bool> failed = false;
    const std::int64_t begin = now_ns(), end = begin + static_cast<std::int64_t>(given.seconds * 1e9);
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < given.at_once; ++i)
            threads.emplace_back([&] {
                try {
                    asker one(given.api);
                    while (now_ns() < end) {
                        bytes = one.ask(get(path));
                        ++count;
                    }
                } catch (const std::exception& error) {
                    std::fprintf(stderr, "bench_api: %s\n", error.what());
                    failed = true;
                }
            });
    }
    if (failed) fail("{} was not answered", path);
    size = bytes;
    return static_cast<double>(count) / (static_cast<double>(now_ns() - begin) / 1e9);
}

// Readers of a session's events; each counts the events that have come to it.
class crowd {
public:
    crowd(const arguments& given, int readers) {
        const std::string request = get("/v1/sessions/" + given.session + "/events?after=0&tail=1");
        for (int i = 0; i < readers; ++i) {
            readers_.push_back({.fd = connect_to(given.api).release(), .events = POLLIN, .revents = 0});
            const unique_fd own(::dup(readers_.back().fd));
            send_all_of(own, request);
        }
        wait_for_all(1); // the event that is there already
    }
    crowd(const crowd&) = delete;
    crowd& operator=(const crowd&) = delete;
    ~crowd() {
        for (const pollfd& each : readers_) ::close(each.fd);
    }

    // When each of them has had one more event, in nanoseconds.
    std::vector<std::int64_t> wait_for_all(std::size_t count) {
        std::vector<std::int64_t> times;
        std::vector<std::size_t> seen(readers_.size());
        std::vector<std::string> held(readers_.size());
        constexpr int patience_ms = 20'000;
        while (times.size() < readers_.size() * count) {
            if (::poll(readers_.data(), readers_.size(), patience_ms) <= 0) fail("the events do not come");
            for (std::size_t i = 0; i < readers_.size(); ++i) {
                if (readers_[i].revents == 0) continue;
                std::array<char, 8192> buffer{};
                const ssize_t got = ::recv(readers_[i].fd, buffer.data(), buffer.size(), 0);
                if (got <= 0) fail("a reader was hung up on");
                held[i].append(buffer.data(), static_cast<std::size_t>(got));
                for (std::size_t at = 0; (at = held[i].find("\ndata: {", at)) != std::string::npos; ++at) {
                    if (seen[i]++ < count) times.push_back(now_ns());
                }
                held[i].clear();
            }
        }
        return times;
    }

private:
    std::vector<pollfd> readers_;
};

std::string change(const arguments& given, int number) {
    const std::string body = number % 2 == 0 ? R"({"starred":true})" : R"({"starred":false})";
    return "POST /v1/sessions/" + given.session +
           "/settings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body;
}

// From the moment a request is sent that makes an event, until it has come to each reader.
std::vector<double> delays(const arguments& given, int readers) {
    crowd all(given, readers);
    asker owner(given.api);
    std::vector<double> samples;
    for (int i = 0; i < given.events; ++i) {
        const std::int64_t begin = now_ns();
        std::jthread asking([&] { owner.ask(change(given, i)); });
        for (const std::int64_t each : all.wait_for_all(1))
            samples.push_back(static_cast<double>(each - begin) / 1e6);
    }
    return samples;
}

void measure(const arguments& given) {
    std::vector<double> lists, single, one, many;
    std::size_t list_bytes = 0, single_bytes = 0;
    for (int run = 0; run < given.runs; ++run) {
        lists.push_back(rate(given, "/v1/sessions", list_bytes));
        single.push_back(rate(given, "/v1/sessions/" + given.session, single_bytes));
        for (const double each : delays(given, 1)) one.push_back(each);
        for (const double each : delays(given, given.readers)) many.push_back(each);
    }
    bench::figures figures;
    figures.add("list_requests_s", bench::percentile(lists, 0.5));
    figures.add("list_bytes", static_cast<double>(list_bytes));
    figures.add("session_requests_s", bench::percentile(single, 0.5));
    figures.add("readers", given.readers);
    figures.add_ms("event_to_one_reader", one);
    figures.add_ms("event_to_all_readers", many);
    figures.add("event_added_by_readers_p50_ms", bench::percentile(many, 0.5) - bench::percentile(one, 0.5));
    figures.print();
}

arguments read_arguments(int argc, char* argv[]) {
    arguments given;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string_view name = argv[i];
        if (name == "--api")
            given.api = argv[i + 1];
        else if (name == "--session")
            given.session = argv[i + 1];
        else if (name == "--runs")
            given.runs = std::atoi(argv[i + 1]);
        else if (name == "--readers")
            given.readers = std::atoi(argv[i + 1]);
        else if (name == "--at-once")
            given.at_once = std::atoi(argv[i + 1]);
        else
            fail("unknown argument '{}'", name);
    }
    return given;
}

} // namespace

int main(int argc, char* argv[]) {
    try {
        measure(read_arguments(argc, argv));
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench_api: %s\n", error.what());
        return 1;
    }
}
