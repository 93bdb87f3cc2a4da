// What a web page, or a path that is too long, could do to the agent's socket.
#include "agent/api_socket.hpp"
#include "support/agent_fixture.hpp"
#include "support/catch.hpp"

using namespace pinfold::test;
using Catch::Matchers::ContainsSubstring;

namespace {

int status_of(const std::string& answer) {
    return answer.size() > 12 ? std::atoi(answer.c_str() + 9) : 0;
}

} // namespace

TEST_CASE("B53 no page is told that it may ask, and none switches a connection to another protocol") {
    agent_fixture agent;
    const auto ask = [&agent](const char* method, const char* path, const std::string& fields) {
        return agent.raw(fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{}\r\n",
                                     method, path, fields));
    };
    const std::string page = "Origin: https://evil.example\r\n";
    for (const char* method : {"OPTIONS", "GET", "POST", "PUT", "DELETE"}) {
        for (const char* path : {"/v1/run", "/v1/cages", "/v1/cages/heron", "/v1/denials?follow=1"}) {
            CAPTURE(method, path);
            const std::string answer = ask(
                method, path, page + "Access-Control-Request-Method: POST\r\nContent-Length: 0\r\n");
            CHECK(status_of(answer) == 403);
            CHECK_THAT(answer, !ContainsSubstring("Access-Control"));
        }
    }
    CHECK(status_of(ask("GET", "/v1/denials", page + "Accept: text/event-stream\r\n")) == 403);
    CHECK(
        status_of(ask("POST", "/v1/run",
                      page + "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Type: application/json\r\n"
                             "Content-Length: 2\r\n\r\n{}")) == 403);
    CHECK(status_of(ask("GET", "/v1/version", "")) == 200); // the twin: a tool of the owner's
}

TEST_CASE("B53 a request whose body is not as long as it says makes nothing") {
    agent_fixture agent;
    const std::string body = R"({"mode":"sealed","dir":"/var/tmp","argv":["true"]})";
    const auto half = connect_unix(agent.api());
    send_text(half,
              fmt::format("POST /v1/plan HTTP/1.1\r\nConnection: close\r\nContent-Type: application/json\r\n"
                          "Content-Length: {}\r\n\r\n{}",
                          body.size() + 100, body));
    ::shutdown(half.get(), SHUT_WR);
    CHECK(status_of(receive_all(half)) != 200);
    // What comes after the body that was announced is no part of it, and no request either.
    const std::string longer = agent.raw(
        fmt::format("POST /v1/plan HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: "
                    "{}\r\n\r\n{}trailing nonsense\r\n\r\n",
                    body.size(), body));
    CHECK_THAT(longer, ContainsSubstring("HTTP/1.1 400"));
    CHECK(status_of(agent.get("/v1/version")) == 200);
}

TEST_CASE("B27 a socket's path that is too long is refused with both lengths, and the longest one works") {
    const scratch_directory place;
    const auto path_of = [&place](std::size_t size) {
        const std::string folder = place.path().native() + "/";
        return std::filesystem::path(folder + std::string(size - folder.size(), 's'));
    };
    for (const std::size_t size : {std::size_t{108}, std::size_t{200}})
        CHECK_THROWS_WITH(pinfold::api_socket::listen(path_of(size)),
                          ContainsSubstring(std::to_string(size)) && ContainsSubstring("107"));
    const auto longest = pinfold::api_socket::listen(path_of(107));
    CHECK(connect_unix(path_of(107)));
    const auto other = pinfold::api_socket::listen(path_of(106)); // one byte apart: another socket
    CHECK(connect_unix(path_of(106)));
    CHECK(longest.fd() != other.fd());
}
