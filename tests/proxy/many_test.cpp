// B25, slow and many: what the proxy holds for cages and agents that do not go on.
#include "proxy/asks.hpp"
#include "proxy/proxy_fixture.hpp"
#include "support/catch.hpp"

#include <poll.h>
#include <sys/socket.h>

namespace pinfold::test {

namespace {

constexpr std::size_t file_size = std::size_t{64} << 20, held_at_most = std::size_t{16} << 20;

// Bytes whose order shows.
std::string counted_file() {
    std::string file(file_size, '\0');
    for (std::size_t i = 0; i < file.size(); ++i) file[i] = static_cast<char>(i * 2654435761U >> 13U);
    return file;
}

// How many bytes are taken until nothing moves any more: what lies between this end and one who does not read.
std::size_t say_until_stuck(const wire_end& to, std::string_view bytes) {
    std::size_t taken = 0;
    while (taken < bytes.size()) {
        const ssize_t sent = ::send(to.fd(), bytes.data() + taken, bytes.size() - taken,
                                    MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            taken += static_cast<std::size_t>(sent);
            continue;
        }
        pollfd room{.fd = to.fd(), .events = POLLOUT};
        if (::poll(&room, 1, 500 * time_scale()) <= 0) break;
    }
    return taken;
}

std::size_t descriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

} // namespace

TEST_CASE("B25: two hundred questions of one cage are under way at once, and all are answered") {
    proxy_fixture proxy;
    std::atomic<std::size_t> arrived = 0;
    fake_agent own(proxy.own_socket(), [&](fake_agent::request& to) { // none is answered before all are there
        ++arrived;
        if (eventually([&] { return arrived == 200; })) fake_agent::say_ok(to);
    });
    proxy.open("w1", {.session = "w1"});
    std::vector<wire_end> all;
    for (int i = 0; i < 200; ++i) all.push_back(proxy.visit("w1"));
    for (const wire_end& each : all) each.say(get("/peer/fd12::1/v1/sessions"));
    for (wire_end& each : all) CHECK(status_line(each.hear_until("{\"ok\":true}")) == "HTTP/1.1 200 OK");
}

TEST_CASE(
    "B25: of a file whose reader pauses little is taken in, and it arrives whole when the reader goes on") {
    proxy_fixture proxy;
    std::atomic<bool> go = false;
    std::string got;
    fake_agent other(proxy_fixture::other, proxy_fixture::port, [&](fake_agent::request& to) {
        eventually([&] { return go.load(); });
        got = to.to->hear(file_size);
        fake_agent::say_ok(to);
    });
    other.leave_bodies();
    proxy.open("w1", {.session = "w1"});
    const std::string file = counted_file();
    wire_end cage = proxy.visit("w1");
    cage.say(fmt::format("POST /peer/fd12::7/v1/sessions/rev/drop?name=a HTTP/1.1\r\nHost: cage\r\n"
                         "Content-Length: {}\r\n\r\n",
                         file.size()));
    const std::size_t taken = say_until_stuck(cage, file);
    CHECK(taken > 0);
    CHECK(taken < held_at_most);
    go = true;
    cage.say(std::string_view(file).substr(taken));
    CHECK(status_line(cage.hear_until("{\"ok\":true}")) == "HTTP/1.1 200 OK");
    CHECK((got == file)); // without 64 MiB in a message
}

TEST_CASE(
    "B25: of an answer whose asker pauses little is taken in, and it arrives whole when the asker goes on") {
    proxy_fixture proxy;
    const std::string file = counted_file();
    std::atomic<std::size_t> taken = 0;
    fake_agent other(proxy_fixture::other, proxy_fixture::port, [&](fake_agent::request& to) {
        to.to->say(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", file.size()));
        taken = say_until_stuck(*to.to, file);
        to.to->say(std::string_view(file).substr(taken));
    });
    proxy.open("w1", {.session = "w1"});
    wire_end cage = proxy.visit("w1");
    cage.say(get("/peer/fd12::7/v1/sessions"));
    CHECK(eventually([&] { return taken > 0; }));
    CHECK(taken < held_at_most);
    CHECK(status_line(cage.hear_until("\r\n\r\n")) == "HTTP/1.1 200 OK");
    CHECK((cage.hear(file.size()) == file));
}

TEST_CASE("B25: when a crowd has gone the proxy holds as many descriptors as before") {
    proxy_fixture proxy;
    fake_agent own(proxy.own_socket());
    fake_agent other(proxy_fixture::other, proxy_fixture::port, [](fake_agent::request& to) {
        to.to->hear_all(); // it never answers
    });
    proxy.open("greedy", {.session = "greedy"});
    const auto ask = [&] {
        wire_end honest = proxy.visit("greedy");
        honest.say(get("/peer/fd12::1/v1/sessions"));
        CHECK(status_line(honest.hear_until("{\"ok\":true}")) == "HTTP/1.1 200 OK");
    };
    ask(); // what stays of a first one is there
    std::size_t before = 0;
    CHECK(eventually([&] {
        const std::size_t last = std::exchange(before, descriptors());
        return last == before;
    }));
    std::vector<wire_end> crowd;
    for (int i = 0; i < 80; ++i) {
        for (const std::string& begun :
             {std::string("GET /machines HT"), post("/peer/fd12::7/a2a/rev", message),
              std::string("POST /peer/fd12::7/v1/sessions/rev/drop HTTP/1.1\r\nHost: c\r\n"
                          "Content-Length: 1000\r\n\r\nhalf")}) {
            crowd.push_back(proxy.visit("greedy"));
            crowd.back().say(begun);
        }
    }
    CHECK(eventually([&] { return other.count() == 80; })); // a body that is not whole is not counted there
    CHECK(eventually([&] { return descriptors() > before + 500; }));
    crowd.clear();
    CHECK(eventually([&] { return descriptors() <= before; }));
    ask();
}

TEST_CASE("B25: a head of which a byte comes now and then ends after its time, and a connection that waits "
          "does not",
          "[slow]") {
    proxy_fixture proxy;
    proxy.open("w1", {.session = "w1"});
    wire_end slow = proxy.visit("w1"), waiting = proxy.visit("w1");
    slow.say("GET /machines HTTP/1.1\r\nHost: cage\r\nX-Slow: ");
    bool ended = false;
    for (int left = 150 * time_scale(); left > 0 && !ended; --left) {
        slow.say("x");
        pollfd end{.fd = slow.fd(), .events = POLLIN | POLLRDHUP};
        ended = ::poll(&end, 1, 200) > 0;
    }
    CHECK(ended);
    CHECK(slow.hear_all().empty());
    waiting.say(get("/machines"));
    CHECK(status_line(waiting.hear_until("]")) == "HTTP/1.1 200 OK");
}

} // namespace pinfold::test
