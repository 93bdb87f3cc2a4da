// B23, what HTTP has beside a request and its answer: being told to go on, trailers, packed bodies, another protocol.
#include "proxy/asks.hpp"
#include "proxy/proxy_fixture.hpp"
#include "support/catch.hpp"

namespace pinfold::test {

namespace {

constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";

// Every byte there is, twice, so that what reads text trips over it.
std::string packed() {
    std::string bytes = "\x1f\x8b\x08"; // as gzip begins
    for (int i = 0; i < 512; ++i) bytes += static_cast<char>(i);
    return bytes;
}

} // namespace

TEST_CASE("B23: who waits to be told to go on is told, once, and an agent's own word to go on is no answer") {
    proxy_fixture proxy;
    fake_agent other(proxy_fixture::other, proxy_fixture::port, [](fake_agent::request& to) {
        to.to->say(go_on);
        fake_agent::say_ok(to);
    });
    proxy.open("w1", {.session = "w1"});
    wire_end cage = proxy.visit("w1");
    for (const char* path : {"/peer/fd12::7/a2a/rev", "/peer/fd12::7/v1/sessions/rev/drop?name=a"}) {
        CAPTURE(path);
        const std::string asked = post(path, message, "Expect: 100-continue\r\n");
        const std::size_t head = asked.size() - std::string_view(message).size();
        cage.say(asked.substr(0, head));
        CHECK(cage.hear_until("\r\n\r\n") == go_on);
        CHECK(other.count() == (path == std::string_view("/peer/fd12::7/a2a/rev") ? 0U : 1U));
        cage.say(asked.substr(head));
        const std::string answer = cage.hear_until("{\"ok\":true}");
        CHECK(status_line(answer) == "HTTP/1.1 200 OK");
        CHECK(count_of(answer, "100 Continue") == 0);
        CHECK(other.heads().back().find("Expect") == std::string::npos);
    }
    CHECK(other.bodies().back() == message);
    // What is refused by its head is refused before its body is asked for.
    cage.say("POST /peer/fd12::7/v1/sessions/rev/drop HTTP/1.1\r\nHost: c\r\nExpect: 100-continue\r\n"
             "Content-Length: 104857601\r\n\r\n");
    CHECK(status_line(cage.hear_all()) == "HTTP/1.1 413 Payload Too Large");
    CHECK(other.count() == 2);
}

TEST_CASE("B23: trailers pass in neither direction, and the next request begins behind them") {
    proxy_fixture proxy;
    fake_agent other(proxy_fixture::other, proxy_fixture::port, [](fake_agent::request& to) {
        to.to->say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
                   "4\r\npart\r\n0\r\nX-Sum: canary\r\n\r\n");
    });
    proxy.open("w1", {.session = "w1"});
    wire_end cage = proxy.visit("w1");
    for (const char* path : {"/peer/fd12::7/a2a/rev", "/peer/fd12::7/v1/sessions/rev/drop"}) {
        CAPTURE(path);
        cage.say(fmt::format("POST {} HTTP/1.1\r\nHost: cage\r\nTrailer: X-Shrooms-Caged\r\n"
                             "Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{}\r\n"
                             "0\r\nX-Shrooms-Caged: boss\r\nX-Sum: boss\r\n\r\n",
                             path, std::string_view(message).size(), message));
        const std::string answer = cage.hear_until("\r\n0\r\n");
        CHECK(status_line(answer) == "HTTP/1.1 200 OK");
        CHECK(answer.ends_with("4\r\npart\r\n0\r\n"));
        CHECK(cage.hear(2) == "\r\n");
        CHECK(other.heads().back().find("X-Shrooms-Caged: w1\r\n") != std::string::npos);
        CHECK(other.heads().back().find("boss") == std::string::npos);
        CHECK(other.heads().back().find("Trailer") == std::string::npos);
        CHECK(other.bodies().back().find("messageId") != std::string::npos);
        CHECK(other.bodies().back().find("boss") == std::string::npos);
    }
    CHECK(other.count() == 2);
}

TEST_CASE("B23: no agent is asked to pack its answer, and what it says passes byte for byte") {
    proxy_fixture proxy;
    fake_agent other(proxy_fixture::other, proxy_fixture::port, [](fake_agent::request& to) {
        const std::string body = packed();
        if (to.head.find("?chunked") == std::string::npos)
            to.to->say(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", body.size(), body));
        else
            to.to->say(fmt::format("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                   "{:x}\r\n{}\r\n0\r\n\r\n",
                                   body.size(), body));
    });
    proxy.open("w1", {.session = "w1"});
    wire_end cage = proxy.visit("w1");
    for (const char* query : {"", "?chunked"}) {
        CAPTURE(query);
        cage.say(fmt::format("GET /peer/fd12::7/v1/sessions{} HTTP/1.1\r\nHost: cage\r\n"
                             "Accept-Encoding: gzip, br\r\nTE: trailers, gzip\r\nAccept: text/plain\r\n\r\n",
                             query));
        const std::string head = cage.hear_until("\r\n\r\n");
        CHECK(status_line(head) == "HTTP/1.1 200 OK");
        if (*query != '\0') CHECK(cage.hear_until("\r\n") == fmt::format("{:x}\r\n", packed().size()));
        CHECK(cage.hear(packed().size()) == packed());
        if (*query != '\0') CHECK(cage.hear(7) == "\r\n0\r\n\r\n");
        CHECK(other.heads().back().find("Accept: text/plain\r\n") != std::string::npos); // what is passed on
        CHECK(other.heads().back().find("Encoding") == std::string::npos);
        CHECK(other.heads().back().find("gzip") == std::string::npos);
    }
    cage.say(post("/peer/fd12::7/v1/sessions/rev/drop?name=a.gz", packed())); // and a file of the cage
    CHECK(status_line(cage.hear_until("\r\n\r\n")) == "HTTP/1.1 200 OK");
    CHECK(other.bodies().back() == packed());
}

TEST_CASE("B23: nothing leaves HTTP by the proxy: an upgrade is asked of no agent, and taken from none") {
    proxy_fixture proxy;
    fake_agent other(proxy_fixture::other, proxy_fixture::port, [](fake_agent::request& to) {
        if (to.head.find("?switch") == std::string::npos) return fake_agent::say_ok(to);
        to.to->say("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
                   "\x81\x06"
                   "canary");
    });
    proxy.open("w1", {.session = "w1"});
    const auto upgrade = [](std::string_view query) {
        return fmt::format("GET /peer/fd12::7/v1/sessions{} HTTP/1.1\r\nHost: cage\r\nUpgrade: websocket\r\n"
                           "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                           "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
                           query);
    };
    wire_end cage = proxy.visit("w1");
    cage.say(upgrade(""));
    CHECK(status_line(cage.hear_until("{\"ok\":true}")) == "HTTP/1.1 200 OK");
    REQUIRE(other.count() == 1);
    for (const char* part : {"Upgrade", "websocket", "WebSocket"})
        CHECK(other.heads()[0].find(part) == std::string::npos);
    // What comes behind it is judged as a request, and is none.
    const std::size_t arrived = other.bytes();
    cage.say(std::string_view("\x81\x85\0\0\0\0hello", 11));
    CHECK(status_line(cage.hear_all()) == "HTTP/1.1 400 Bad Request");
    CHECK(other.bytes() == arrived);

    wire_end switched = proxy.visit("w1");
    switched.say(upgrade("?switch"));
    const std::string answer = switched.hear_all();
    CHECK(status_line(answer) == "HTTP/1.1 502 Bad Gateway");
    CHECK(answer.find("canary") == std::string::npos);
}

} // namespace pinfold::test
