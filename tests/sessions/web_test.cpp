// Who may ask, and how much: web pages, caged agents, the network's listener, bodies and files.
#include "session_fixture.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <filesystem>
#include <netinet/in.h>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

using namespace pinfold;
using namespace pinfold::test;

namespace {

std::string request(std::string_view method, std::string_view path, std::string_view fields,
                    std::string_view body) {
    return fmt::format("{} {} HTTP/1.1\r\nConnection: close\r\n{}Content-Length: {}\r\n\r\n{}", method, path,
                       fields, body.size(), body);
}

constexpr std::string_view json_type = "Content-Type: application/json\r\n";

int status_of(const session_fixture& with, const std::string& bytes) {
    return parse_answer(with.agent.raw(bytes)).status;
}

// A port nobody has at this moment, on the loopback of whatever network the test is in.
std::uint16_t free_port() {
    const unique_fd probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    check(::bind(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), "bind a socket");
    socklen_t size = sizeof address;
    ::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(address.sin_port);
}

std::string over_tcp(std::uint16_t port, const std::string& bytes) {
    const unique_fd to(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address{
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    if (::connect(to.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return "";
    send_text(to, bytes);
    return receive_all(to);
}

} // namespace

TEST_CASE("a web page can make, change and delete nothing: refused before any effect") {
    session_fixture with;
    REQUIRE(with.create().status == 201);
    const std::string body = R"({"name":"evil","dir":")" + with.project().native() + R"("})";
    for (const auto& [status, fields] : std::vector<std::pair<int, std::string>>{
             {403, "Host: evil.example\r\nContent-Type: application/json\r\n"},
             {403, "Host: localhost\r\nOrigin: http://evil.example\r\nContent-Type: application/json\r\n"},
             {403, "Host: localhost\r\nOrigin: null\r\nContent-Type: application/json\r\n"},
             {403, "Host: localhost\r\nSec-Fetch-Site: cross-site\r\nContent-Type: application/json\r\n"},
             {415, "Host: localhost\r\nContent-Type: text/plain\r\n"},
             {415, "Host: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"},
             {415, "Host: localhost\r\n"}}) {
        INFO(fields);
        CHECK(status_of(with, request("POST", "/v1/sessions", fields, body)) == status);
        CHECK(status_of(with, request("POST", "/v1/sessions/heron/rename", fields, R"({"name":"b"})")) ==
              status);
        if (status != 403) continue;
        CHECK(status_of(with, request("DELETE", "/v1/sessions/heron", fields, "")) == status);
        CHECK(status_of(with, request("PATCH", "/v1/sessions/heron", fields, R"({"starred":true})")) ==
              status);
        CHECK(status_of(with, request("POST", "/v1/sessions/heron/files?name=x", fields, "x")) == status);
    }
    CHECK(status_of(with, request("POST", "/v1/sessions/heron/files?name=x",
                                  "Host: localhost\r\nContent-Type: text/plain\r\n", "x")) == 415);
    CHECK(with.get("/v1/sessions").body["sessions"].size() == 1);
    CHECK(with.info()["last_seq"] == 0);
    CHECK(status_of(with, request("POST", "/v1/sessions", json_type, body)) == 201); // its twin
    CHECK(status_of(with, request("PATCH", "/v1/sessions/heron", json_type, R"({"starred":true})")) == 200);
}

TEST_CASE("what a caged agent asks changes nothing") {
    session_fixture with;
    REQUIRE(with.create().status == 201);
    const std::string caged = std::string(json_type) + "X-Shrooms-Caged: egret\r\n";
    for (const auto& [method, path, body] : std::vector<std::tuple<std::string, std::string, std::string>>{
             {"POST", "/v1/sessions", R"({"name":"b","dir":")" + with.project().native() + "\"}"},
             {"POST", "/v1/sessions/heron/settings", R"({"auto_approve":true})"},
             {"PATCH", "/v1/sessions/heron", R"({"auto_approve":true})"},
             {"POST", "/v1/sessions/heron/rename", R"({"name":"c"})"},
             {"POST", "/v1/sessions/heron/cage", R"({"cage":null})"},
             {"POST", "/v1/sessions/heron/cage/limits", R"({"memory":"16g"})"},
             {"POST", "/v1/sessions/heron/messages", R"({"text":"do it"})"},
             {"POST", "/v1/sessions/heron/restart", "{}"},
             {"POST", "/v1/sessions/heron/interrupt", "{}"},
             {"POST", "/v1/sessions/heron/prompts/x", R"({"allow":true})"},
             {"DELETE", "/v1/sessions/heron", ""}}) {
        INFO(method << " " << path);
        CHECK(status_of(with, request(method, path, caged, body)) == 403);
    }
    CHECK(with.info()["last_seq"] == 0);
    CHECK(with.get("/v1/sessions").body["sessions"].size() == 1);
    CHECK(status_of(with, request("GET", "/v1/sessions", "X-Shrooms-Caged: egret\r\n", "")) == 200);
    CHECK(status_of(with, request("POST", "/v1/sessions/heron/settings", json_type,
                                  R"({"auto_approve":true})")) == 200);
}

TEST_CASE("bodies have a limit, files a larger one, and what is malformed is named") {
    session_fixture with;
    REQUIRE(with.create().status == 201);
    CHECK(status_of(with, request("POST", "/v1/sessions/heron/messages", json_type,
                                  std::string(1024 * 1024 + 1, ' '))) == 413);
    CHECK(status_of(with, fmt::format("POST /v1/sessions/heron/files?name=x HTTP/1.1\r\nConnection: close\r\n"
                                      "Content-Type: application/octet-stream\r\nContent-Length: {}\r\n\r\n",
                                      50 * 1024 * 1024 + 1)) == 413);
    for (const char* body : {"", "{", "[]", "7", R"({"text":7})", R"({"text":""})", R"({"text":"  "})",
                             R"({})", R"({"text":"a","id":7})"}) {
        INFO(body);
        const answered refused = parse_answer(
            with.agent.raw(request("POST", "/v1/sessions/heron/messages", json_type, body)));
        CHECK(refused.status == 400);
        CHECK(refused.body.contains("error"));
    }
    CHECK(with.info()["last_seq"] == 0);

    const std::string file(3 * 1024 * 1024, 'f');
    const answered kept = parse_answer(with.agent.raw(request(
        "POST", "/v1/sessions/heron/files?name=..%2f..%2fa%20b!.txt", "Content-Type: image/png\r\n", file)));
    REQUIRE(kept.status == 201);
    const std::filesystem::path path = kept.body["path"].get<std::string>();
    CHECK(path.parent_path() == with.agent.directory() / "state/uploads/heron");
    CHECK_THAT(path.filename().native(), Catch::Matchers::ContainsSubstring("-a_b_.txt"));
    CHECK(std::filesystem::file_size(path) == file.size());
    CHECK(status_of(with, request("POST", "/v1/sessions/heron/files?name=x", "Content-Type: image/png\r\n",
                                  "")) == 400);
    CHECK(status_of(with, request("POST", "/v1/sessions/nobody/files?name=x", "Content-Type: image/png\r\n",
                                  "x")) == 404);
    CHECK(with.remove("/v1/sessions/heron").status == 204);
    CHECK(!std::filesystem::exists(path)); // they go with the session
}

TEST_CASE("the network's listener serves its own names only, and no wildcard is taken") {
    const std::uint16_t port = free_port();
    session_fixture with(
        {"--listen", "127.0.0.1", "--port", std::to_string(port), "--host-name", "pi5.home"});
    const auto get = [&](const std::string& host) {
        return parse_answer(over_tcp(port, request("GET", "/v1/sessions", "Host: " + host + "\r\n", "")))
            .status;
    };
    CHECK(get("127.0.0.1:" + std::to_string(port)) == 200);
    CHECK(get("127.0.0.1") == 200);
    CHECK(get("Pi5.home:" + std::to_string(port)) == 200);
    CHECK(get("localhost") == 421);
    CHECK(get("evil.example") == 421); // rebound to this address
    CHECK(get("127.0.0.1.evil.example") == 421);
    CHECK(get("") == 421);
    const std::string body = R"({"name":"b","dir":")" + with.project().native() + "\"}";
    const std::string own = "Host: 127.0.0.1\r\n" + std::string(json_type);
    CHECK(parse_answer(
              over_tcp(port, request("POST", "/v1/sessions", own + "Origin: http://127.0.0.1\r\n", body)))
              .status == 403);
    CHECK(with.get("/v1/sessions").body["sessions"].empty());
    CHECK(parse_answer(over_tcp(port, request("POST", "/v1/sessions", own, body))).status == 201);
    CHECK(parse_answer(over_tcp(port, request("POST", "/v1/sessions/b/rename", own, R"({"name":"c"})")))
              .status == 200);
    CHECK(with.get("/v1/sessions?tail=1").body["sessions"][0]["tail"][0]["by"] == "127.0.0.1");

    for (const char* address : {"0.0.0.0", "::"}) {
        INFO(address);
        CHECK_THROWS(agent_fixture({"--listen", address, "--port", std::to_string(free_port())}));
    }
}
