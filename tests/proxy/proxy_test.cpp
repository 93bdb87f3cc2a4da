#include "base/file.hpp"
#include "proxy/asks.hpp"
#include "proxy/proxy_fixture.hpp"
#include "support/catch.hpp"

#include <csignal>
#include <fmt/format.h>
#include <sys/socket.h>

namespace pinfold::test {

TEST_CASE("a cage's question arrives once, at the machine it named, with what its own agent says of it") {
    proxy_fixture proxy;
    fake_agent own(proxy.own_socket()), other(proxy_fixture::other, proxy_fixture::port);
    proxy.open("w1", {.session = "w1"});
    wire_end cage = proxy.visit("w1");
    cage.say(post("/peer/fd12::7/a2a/rev", message,
                  "X-Shrooms-Caged: boss\r\nx-shrooms-caged: a\r\nX-SHROOMS-CAGED: "
                  "b\r\nX-Shrooms-From-Session: boss\r\n"
                  "Authorization: Bearer x\r\nCookie: a=b\r\nConnection: keep-alive, X-Shrooms-Caged\r\n"));
    CHECK(status_line(cage.hear_until("{\"ok\":true}")) == "HTTP/1.1 200 OK");
    REQUIRE(other.count() == 1);
    CHECK(other.heads()[0] == "POST /a2a/rev HTTP/1.1\r\nHost: [fd12::7]:7387\r\nX-Shrooms-Caged: w1\r\n"
                              "Content-Type: application/json\r\n" +
                                  fmt::format("Content-Length: {}\r\n\r\n", other.bodies()[0].size()));
    CHECK(other.bodies()[0].find(R"("shrooms/from":"laptop/w1")") != std::string::npos);
    CHECK(own.bytes() == 0);

    // A second one on the same connection is judged like the first.
    cage.say(post("/peer/fd12::1/v1/sessions", R"({"name":"free"})"));
    CHECK(status_line(cage.hear_all()) == "HTTP/1.1 403 Forbidden");
    CHECK(own.bytes() == 0);
    CHECK(other.count() == 1);
}

TEST_CASE("the machines are told, and its own agent is asked at its socket") {
    proxy_fixture proxy;
    fake_agent own(proxy.own_socket());
    proxy.open("w1", {.session = "w1"});
    wire_end cage = proxy.visit("w1");
    cage.say(get("/machines"));
    CHECK(cage.hear_until("]").find(
              R"([{"addr":"fd12::1","name":"laptop"},{"addr":"fd12::7","name":"pi5"})") != std::string::npos);
    cage.say(get("/peer/fd12::1/v1/sessions?all=1"));
    CHECK(status_line(cage.hear_until("{\"ok\":true}")) == "HTTP/1.1 200 OK");
    CHECK(own.heads().at(0).starts_with(
        "GET /v1/sessions?all=1 HTTP/1.1\r\nHost: pinfold\r\nX-Shrooms-Caged: w1\r\n"));
    cage.say(post("/peer/fd12::1/v1/tasks/w1:1", R"({"state":"done","session":"other"})"));
    CHECK(status_line(cage.hear_until("{\"ok\":true}")) == "HTTP/1.1 200 OK");
    CHECK(own.bodies().at(1) == R"({"state":"done","session":"w1"})");
}

TEST_CASE("a sealed cage reports on its tasks, and not a byte of anything else goes on") {
    proxy_fixture proxy;
    fake_agent own(proxy.own_socket()), other(proxy_fixture::other, proxy_fixture::port);
    proxy.open("review", {.session = "review", .sealed = true});
    for (const std::string& asked : {post("/peer/fd12::7/a2a/rev", message), get("/peer/fd12::1/v1/sessions"),
                                     post("/peer/fd12::1/v1/sessions/w1/drop", "x")}) {
        wire_end cage = proxy.visit("review");
        cage.say(asked);
        const std::string answer = cage.hear_all();
        CHECK(status_line(answer) == "HTTP/1.1 403 Forbidden");
        CHECK(answer.find("not from a sealed cage") != std::string::npos);
    }
    CHECK(own.bytes() + other.bytes() == 0);
    wire_end cage = proxy.visit("review");
    cage.say(post("/peer/fd12::1/v1/tasks/review:1", R"({"state":"done"})"));
    CHECK(status_line(cage.hear_until("{\"ok\":true}")) == "HTTP/1.1 200 OK");
    CHECK(own.count() == 1);
}

TEST_CASE("HTTP that two readers could take for different requests is answered 400, and nothing goes on") {
    proxy_fixture proxy;
    fake_agent own(proxy.own_socket()), other(proxy_fixture::other, proxy_fixture::port);
    proxy.open("w1", {.session = "w1"});
    const std::string line = "POST /peer/fd12::7/a2a/rev HTTP/1.1\r\nHost: cage\r\n";
    const std::string hidden = "GET /peer/fd12::7/v1/sessions HTTP/1.1\r\nHost: cage\r\n\r\n";
    const std::string length = fmt::format("Content-Length: {}\r\n", std::string_view(message).size());
    const std::string chunked = fmt::format("\r\n{:x}\r\n{}\r\n0\r\n\r\n", std::string_view(message).size(),
                                            message);
    for (const std::string& odd : {
             line + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
             line + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + hidden,
             line + "Content-Length: 0\r\nContent-Length: 44\r\n\r\n" + hidden,
             line + "Content-Length: 0, 44\r\n\r\n" + hidden,
             line + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + hidden,
             line + "Transfer-Encoding: identity\r\n\r\n" + hidden,
             line + "Content-Length: +5\r\n\r\n" + hidden,
             line + "Content-Length: -1\r\n\r\n" + hidden,
             line + "Content-Length : 5\r\n\r\n" + hidden,
             line + "Host: other\r\nContent-Length: 0\r\n\r\n" + hidden,
             // With a body that is right: nothing but the oddity itself refuses these.
             line + length + length + "\r\n" + message,
             line + "Transfer-Encoding: gzip, chunked\r\n" + chunked,
             line + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n" + chunked,
             line + length + "Transfer-Encoding: chunked\r\n" + chunked,
             line + "Host: other\r\n" + length + "\r\n" + message,
             std::string("GET /peer/fd12::7/a2a/../v1/sessions HTTP/1.1\r\nHost: cage\r\n\r\n"),
             std::string("GET /peer/fd12::7/v1/sessions HTTP/1.1\nHost: cage\n\n"),
             std::string("GET  /peer/fd12::7/v1/sessions HTTP/1.1\r\nHost: cage\r\n\r\n"),
             std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),
         }) {
        wire_end cage = proxy.visit("w1");
        cage.say(odd);
        cage.stop_sending();
        const std::string answer = cage.hear_all();
        CAPTURE(odd);
        CHECK(status_line(answer) == "HTTP/1.1 400 Bad Request");
        CHECK(count_of(answer, "HTTP/1.1 ") == 1);
    }
    CHECK(own.bytes() + other.bytes() == 0);
    wire_end cage = proxy.visit("w1"); // the twin: the same request without the oddity
    cage.say(line +
             fmt::format("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{}\r\n0\r\nX-Shrooms-Caged: boss\r\n\r\n",
                         std::string_view(message).size(), message));
    CHECK(status_line(cage.hear_until("{\"ok\":true}")) == "HTTP/1.1 200 OK");
    CHECK(other.heads().at(0).find("boss") == std::string::npos); // nor by a trailer
}

TEST_CASE("B23: what an agent says in parts arrives in parts, and a quiet stream lives") {
    proxy_fixture proxy;
    std::atomic<int> may_say = 0;
    fake_agent other(proxy_fixture::other, proxy_fixture::port, [&](fake_agent::request& to) {
        to.to->say(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
        for (int i = 1; i <= 3; ++i) {
            eventually([&] { return may_say >= i; });
            const std::string part = fmt::format("data: {}\n\n", i);
            to.to->say(fmt::format("{:x}\r\n{}\r\n", part.size(), part));
        }
        to.to->say("0\r\n\r\n");
    });
    proxy.open("w1", {.session = "w1"});
    wire_end cage = proxy.visit("w1");
    cage.say(post("/peer/fd12::7/a2a/rev",
                  R"({"method":"SendStreamingMessage","params":{"message":{"messageId":"m"}}})"));
    // The head comes before any event: the client knows that it was taken.
    CHECK(cage.hear_until("\r\n\r\n").find("text/event-stream") != std::string::npos);
    for (int i = 1; i <= 3; ++i) {
        may_say = i; // and never before the last one was heard
        CHECK(cage.hear_until(fmt::format("data: {}\n\n", i)).ends_with(fmt::format("data: {}\n\n", i)));
    }
    CHECK(cage.hear_until("0\r\n\r\n").ends_with("0\r\n\r\n"));
}

TEST_CASE("a hang-up passes in both directions, and who only stops sending is still answered") {
    proxy_fixture proxy;
    std::atomic<bool> saw_end = false, go = false;
    fake_agent other(proxy_fixture::other, proxy_fixture::port, [&](fake_agent::request& to) {
        if (to.head.find("/wait") != std::string::npos) {
            saw_end = to.to->hear_all().empty();
        } else if (to.head.find("/cut") != std::string::npos) {
            to.to->say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
            ::shutdown(to.to->fd(), SHUT_RDWR);
        } else {
            eventually([&] { return go.load(); });
            fake_agent::say_ok(to);
        }
    });
    proxy.open("w1", {.session = "w1"});
    {
        wire_end cage = proxy.visit("w1");
        cage.say(post("/peer/fd12::7/a2a/wait", message));
        CHECK(eventually([&] { return other.count() == 1; }));
    } // closed
    CHECK(eventually([&] { return saw_end.load(); }));

    wire_end cut = proxy.visit("w1");
    cut.say(post("/peer/fd12::7/a2a/cut", message));
    const std::string half = cut.hear_all();
    CHECK(half.ends_with("half"));
    CHECK(half.find("Content-Length: 100") != std::string::npos); // so that the client knows

    wire_end closed_half = proxy.visit("w1");
    closed_half.say(post("/peer/fd12::7/a2a/rev", message));
    closed_half.stop_sending();
    CHECK(eventually([&] { return other.count() == 3; }));
    go = true;
    const std::string last = closed_half.hear_until("{\"ok\":true}");
    CAPTURE(last);
    CHECK(status_line(last) == "HTTP/1.1 200 OK");
}

TEST_CASE("the rest of an answer that its asker did not wait for is nobody else's answer") {
    proxy_fixture proxy;
    std::atomic<bool> left = false, asked = false, hung_up = false;
    fake_agent own(proxy.own_socket(), [&](fake_agent::request& to) {
        if (to.head.find("?first") == std::string::npos) {
            asked = true;
            return fake_agent::say_ok(to);
        }
        to.to->say("HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\nhalf");
        eventually([&] { return left.load(); });
        to.to->say("more"); // by which the proxy sees that nobody listens
        try {
            to.to->hear_all(); // it hangs up, or asks the next question here
            hung_up = true;
        } catch (const failure&) {
            to.to->say("the first one's secret");
        }
    });
    proxy.open("w1", {.session = "w1"});
    proxy.open("w2", {.session = "w2"});
    {
        wire_end first = proxy.visit("w1");
        first.say(get("/peer/fd12::1/v1/sessions?first"));
        CHECK(first.hear_until("half").ends_with("half"));
    } // closed
    left = true;
    CHECK(eventually([&] { return hung_up.load(); }));
    for (int round = 0; round < 5; ++round) {
        std::vector<wire_end> all;
        for (int i = 0; i < 8; ++i) all.push_back(proxy.visit("w2"));
        for (const wire_end& each : all) each.say(get("/peer/fd12::1/v1/sessions?second"));
        for (wire_end& each : all) CHECK(each.hear_until("{\"ok\":true}").ends_with("{\"ok\":true}"));
    }
    CHECK(asked);
}

TEST_CASE("an agent that cannot be reached is an error that names it") {
    proxy_fixture proxy;
    proxy.open("w1", {.session = "w1"});
    for (const char* machine :
         {"fd12::7", "fd12::9", "fd12::1"}) { // nobody listens, no route, no agent of our own
        wire_end cage = proxy.visit("w1");
        cage.say(get(fmt::format("/peer/{}/v1/sessions", machine)));
        const std::string answer = cage.hear_all();
        CHECK(status_line(answer) == "HTTP/1.1 502 Bad Gateway");
        CHECK(answer.find(machine == std::string("fd12::1") ? "api.sock" : machine) != std::string::npos);
    }
}

TEST_CASE("a file goes on as it comes, and one that breaks off is not taken for whole") {
    proxy_fixture proxy;
    fake_agent other(proxy_fixture::other, proxy_fixture::port);
    proxy.open("w1", {.session = "w1"});
    const std::string file(3 << 20, 'f');
    wire_end cage = proxy.visit("w1");
    cage.say(post("/peer/fd12::7/v1/sessions/rev/drop?name=a.bin", file));
    CHECK(status_line(cage.hear_until("{\"ok\":true}")) == "HTTP/1.1 200 OK");
    CHECK(other.bodies().at(0) == file);
    {
        wire_end broken = proxy.visit("w1");
        broken.say("POST /peer/fd12::7/v1/sessions/rev/drop HTTP/1.1\r\nHost: c\r\nContent-Length: "
                   "1000\r\n\r\nhalf");
        broken.stop_sending();
        CHECK(status_line(broken.hear_all()) != "HTTP/1.1 200 OK");
    }
    wire_end large = proxy.visit("w1");
    large.say(
        "POST /peer/fd12::7/v1/sessions/rev/drop HTTP/1.1\r\nHost: c\r\nContent-Length: 104857601\r\n\r\n");
    CHECK(status_line(large.hear_all()) == "HTTP/1.1 413 Payload Too Large");
}

TEST_CASE("B25: a cage that opens thousands of connections waits for itself, and the others for nobody") {
    proxy_fixture proxy;
    fake_agent own(proxy.own_socket());
    proxy.open("greedy", {.session = "greedy"});
    proxy.open("honest", {.session = "honest"});
    std::vector<wire_end> half;
    for (int i = 0; i < 300; ++i) { // more than are served, and not more than the queue holds
        wire_end made = proxy.visit("greedy");
        made.say("GET /machines HT");
        half.push_back(std::move(made));
    }
    std::vector<wire_end> honest;
    for (int i = 0; i < 200; ++i) honest.push_back(proxy.visit("honest"));
    for (wire_end& each : honest) each.say(get("/peer/fd12::1/v1/sessions"));
    for (wire_end& each : honest) CHECK(status_line(each.hear_until("{\"ok\":true}")) == "HTTP/1.1 200 OK");
    CHECK(own.count() == 200);
    half.clear();
    wire_end later = proxy.visit("greedy");
    later.say(get("/machines"));
    CHECK(status_line(later.hear_until("]")) == "HTTP/1.1 200 OK");
}

TEST_CASE("B27: the socket's name is short inside however deep its directory is, and each cage has its own") {
    proxy_fixture proxy;
    fake_agent own(proxy.own_socket());
    const std::string deep(180, 'd');
    for (const char* name : {"a", "b"}) {
        const std::string place = deep + "/" + name;
        const auto directory = proxy.open(place, {.session = name});
        const unique_fd inside = open_directory(directory);
        wire_end cage = connect_to(fmt::format("/proc/self/fd/{}/proxy.sock", inside.get()));
        cage.say(get("/peer/fd12::1/v1/sessions"));
        CHECK(status_line(cage.hear_until("{\"ok\":true}")) == "HTTP/1.1 200 OK");
    }
    CHECK(own.heads().at(0).find("X-Shrooms-Caged: a\r\n") != std::string::npos);
    CHECK(own.heads().at(1).find("X-Shrooms-Caged: b\r\n") != std::string::npos);
}

TEST_CASE("an older HTTP and a head without end are refused, and nothing goes on") {
    proxy_fixture proxy;
    fake_agent other(proxy_fixture::other, proxy_fixture::port);
    proxy.open("w1", {.session = "w1"});
    const auto answer_to = [&](const std::string& asked) {
        wire_end cage = proxy.visit("w1");
        cage.say(asked);
        cage.stop_sending();
        return status_line(cage.hear_all());
    };
    const std::string line = "GET /peer/fd12::7/v1/sessions HTTP/1.";
    CHECK(answer_to(line + "0\r\nHost: cage\r\n\r\n") == "HTTP/1.1 505 HTTP Version Not Supported");
    const auto with_field = [&](std::size_t size) {
        return line + "1\r\nHost: cage\r\nX-Field: " + std::string(size, 'x') + "\r\n\r\n";
    };
    CHECK(answer_to(with_field(std::size_t{16} << 10)) == "HTTP/1.1 431 Request Header Fields Too Large");
    CHECK(other.bytes() == 0);
    CHECK(answer_to(with_field(std::size_t{15} << 10)) == "HTTP/1.1 200 OK"); // the twin
}

TEST_CASE("a door that is closed lets nobody in and ends who is inside") {
    proxy_fixture proxy;
    const auto directory = proxy.open("w1", {.session = "w1"});
    wire_end cage = proxy.visit("w1"), half = proxy.visit("w1");
    cage.say("GET /machines HTTP/1.1\r\nHost: cage\r\n\r\n");
    CHECK(status_line(cage.hear_until("]")) == "HTTP/1.1 200 OK"); // and is kept for a minute
    half.say("GET /machines HT");
    proxy.on_ring([&](auto& all) { all.close(directory); });
    CHECK(cage.hear_all().empty());
    CHECK(half.hear_all().empty());
    CHECK_FALSE(std::filesystem::exists(directory));
    CHECK_THROWS(proxy.visit("w1"));
}

} // namespace pinfold::test
