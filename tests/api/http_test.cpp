#include "support/agent_fixture.hpp"
#include "support/catch.hpp"
#include "support/fake_keeper.hpp"

#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>

using namespace pinfold::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

int status_of(const std::string& answer) {
    return answer.size() > 12 ? std::atoi(answer.c_str() + 9) : 0;
}

json body_of(const std::string& answer) {
    const std::size_t end = answer.find("\r\n\r\n");
    return end == std::string::npos ? json() : json::parse(answer.substr(end + 4), nullptr, false);
}

const std::string valid = R"({"mode":"caged","dir":"/var/tmp","argv":["true"]})";

} // namespace

TEST_CASE("the agent answers with JSON, and says what is not there") {
    agent_fixture agent;
    const std::string version = agent.get("/v1/version");
    CHECK(status_of(version) == 200);
    CHECK(body_of(version).at("pid") == agent.pid());
    CHECK(body_of(version).at("keeper").at("connected") == false);
    CHECK(status_of(agent.get("/v1/nothing")) == 404);
    CHECK(status_of(agent.get("/v1/cages/a/b/c")) == 404);
    const std::string wrong_method = agent.raw("DELETE /v1/cages HTTP/1.1\r\nConnection: close\r\n\r\n");
    CHECK(status_of(wrong_method) == 405);
    CHECK_THAT(wrong_method, ContainsSubstring("Allow: GET, POST"));
}

TEST_CASE("without a keeper the API says 503 and how to get one") {
    agent_fixture agent;
    const std::string list = agent.get("/v1/cages");
    CHECK(status_of(list) == 503);
    CHECK_THAT(body_of(list).at("error").get<std::string>(), ContainsSubstring("pinfold-keeper"));
    CHECK(body_of(list).at("cages") == json::array());
    CHECK(status_of(agent.post("/v1/plan", valid)) == 503);
    CHECK(status_of(agent.get("/v1/doctor")) == 503);

    fake_keeper keeper(agent.keeper_socket()); // its twin: the same request once one is there
    CHECK(status_of(agent.get("/v1/cages")) == 200);
    CHECK(status_of(agent.post("/v1/plan", valid)) == 200);
}

TEST_CASE(
    "a web page cannot use the API: Host, Origin, Sec-Fetch-Site and the content type are judged (B53)") {
    agent_fixture agent;
    const auto get_with = [&](std::string_view fields) {
        return status_of(
            agent.raw(fmt::format("GET /v1/version HTTP/1.1\r\nConnection: close\r\n{}\r\n", fields)));
    };
    CHECK(get_with("") == 200);
    CHECK(get_with("Host: localhost\r\n") == 200);
    CHECK(get_with("Host: pinfold\r\n") == 200);
    CHECK(get_with("Host: evil.example\r\n") == 403);
    CHECK(get_with("Host: localhost.evil.example\r\n") == 403);
    CHECK(get_with("Host: localhost\r\nHost: evil.example\r\n") != 200);
    CHECK(get_with("Host: localhost\r\nOrigin: null\r\n") == 403);
    CHECK(get_with("Host: localhost\r\nOrigin: http://localhost\r\n") == 403);
    CHECK(get_with("Host: localhost\r\nSec-Fetch-Site: cross-site\r\n") == 403);
    CHECK(get_with("Host: localhost\r\nSec-Fetch-Site: same-origin\r\n") == 403);
    CHECK(get_with("Host: localhost\r\nSec-Fetch-Site: none\r\n") == 200);
    for (const char* type : {"text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""})
        CHECK(status_of(agent.raw(fmt::format("POST /v1/plan HTTP/1.1\r\nConnection: close\r\nContent-Type: "
                                              "{}\r\nContent-Length: 2\r\n\r\n{{}}",
                                              type))) == 415);
}

TEST_CASE("requests are limited in size, and broken ones are refused (B53)") {
    agent_fixture agent;
    const std::string long_field(20 * 1024, 'x');
    CHECK(status_of(agent.raw("GET /v1/version HTTP/1.1\r\nX: " + long_field + "\r\n\r\n")) == 431);
    CHECK(status_of(agent.post("/v1/plan", std::string(1024 * 1024 + 1, ' '))) == 413);
    CHECK(status_of(agent.post("/v1/plan", std::string(1024 * 1024, ' '))) ==
          400); // its twin: read, and no JSON
    CHECK(status_of(agent.raw("nonsense\r\n\r\n")) == 400);
    CHECK(status_of(agent.raw("POST /v1/plan HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n")) ==
          400);
    CHECK(status_of(agent.post("/v1/plan", std::string(100000, '['))) == 400);
    // Which of two modes would count, whoever looked at the request could not know.
    const std::string twice = R"({"mode":"sealed","dir":"/var/tmp","argv":["true"],"mode":"uncaged"})";
    CHECK_THAT(agent.post("/v1/plan", twice),
               ContainsSubstring("mode") && ContainsSubstring("is named twice"));
    CHECK(status_of(agent.post("/v1/plan", twice)) == 400);
    const std::string nested =
        R"({"mode":"sealed","dir":"/var/tmp","argv":["true"],"limits":{"pids":9,"pids":8}})";
    CHECK_THAT(agent.post("/v1/plan", nested), ContainsSubstring("is named twice"));
    CHECK(status_of(agent.get("/v1/version")) == 200);
}

TEST_CASE("a connection carries request after request, also when they come at once or byte by byte") {
    agent_fixture agent;
    const std::string one = "GET /v1/version HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const std::string last = "GET /v1/version HTTP/1.1\r\nConnection: close\r\n\r\n";
    const auto count = [](const std::string& text) {
        std::size_t found = 0;
        for (std::size_t at = 0; (at = text.find("HTTP/1.1 200", at)) != std::string::npos; ++at) ++found;
        return found;
    };
    CHECK(count(agent.raw(one + one + last)) == 3);
    const auto slow = connect_unix(agent.api());
    for (const char byte : last) {
        send_text(slow, {&byte, 1});
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    CHECK(count(receive_all(slow)) == 1);
    const auto waiting = connect_unix(agent.api());
    send_text(waiting, "POST /v1/plan HTTP/1.1\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Type: "
                       "application/json\r\nContent-Length: 2\r\n\r\n");
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    send_text(waiting, "{}");
    const std::string answer = receive_all(waiting);
    CHECK_THAT(answer, ContainsSubstring("HTTP/1.1 100 Continue"));
    CHECK_THAT(answer, ContainsSubstring("HTTP/1.1 400"));
}

TEST_CASE("a header that comes too slowly ends with 408 (B25)", "[slow]") {
    agent_fixture agent;
    const auto slow = connect_unix(agent.api());
    send_text(slow, "GET /v1/version HTTP/1.1\r\n");
    const auto begin = std::chrono::steady_clock::now();
    const std::string answer = receive_all(slow, std::chrono::seconds(20));
    CHECK(status_of(answer) == 408);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(15));
}

TEST_CASE("at most 256 requests are read at once, and one that leaves makes room (B25)") {
    agent_fixture agent;
    std::vector<pinfold::unique_fd> held;
    for (int i = 0; i < 256; ++i) {
        held.push_back(connect_unix(agent.api()));
        send_text(held.back(), "GET /v1/version HTTP/1.1\r\n"); // an idle one would leave for who comes
    }
    CHECK(eventually([&] { return status_of(agent.get("/v1/version")) == 503; }));
    held.resize(200);
    CHECK(eventually([&] { return status_of(agent.get("/v1/version")) == 200; }));
}

TEST_CASE("a second agent on one socket is refused, and a dead one's socket is replaced") {
    agent_fixture agent;
    const std::string second = fmt::format("{} --api {} --state {} 2>&1", PINFOLD_BIN_DIR "/pinfold-agent",
                                           agent.api().native(), (agent.directory() / "state").native());
    std::FILE* pipe = ::popen(second.c_str(), "r");
    std::array<char, 4096> text{};
    const std::size_t got = std::fread(text.data(), 1, text.size() - 1, pipe);
    CHECK(::pclose(pipe) != 0);
    CHECK_THAT(std::string(text.data(), got), ContainsSubstring("another pinfold-agent already listens"));
    CHECK(status_of(agent.get("/v1/version")) == 200);

    agent.stop(SIGKILL);
    CHECK(std::filesystem::exists(agent.api()));
    agent.start();
    CHECK(status_of(agent.get("/v1/version")) == 200);
    CHECK(WIFEXITED(agent.stop()));
    CHECK_FALSE(std::filesystem::exists(agent.api()));
}

TEST_CASE("the API socket is the owner's alone") {
    agent_fixture agent;
    struct stat found{};
    REQUIRE(::stat(agent.api().parent_path().c_str(), &found) == 0);
    CHECK((found.st_mode & 0777) == 0700);
    REQUIRE(::stat(agent.api().c_str(), &found) == 0);
    CHECK((found.st_mode & 0777) == 0600);
    if (::geteuid() != 0) SKIP("root, to be another user");
    // The modes would stop this user; they are opened here, so that the check of the peer stands alone.
    ::chmod(agent.directory().c_str(), 0755);
    ::chmod(agent.api().parent_path().c_str(), 0755);
    ::chmod(agent.api().c_str(), 0666);
    std::array<int, 2> pipe{};
    REQUIRE(::pipe(pipe.data()) == 0);
    const pid_t other = ::fork();
    if (other == 0) {
        if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(1);
        const std::string answer = agent.get("/v1/version");
        std::ignore = ::write(pipe[1], answer.data(), answer.size());
        ::_exit(0);
    }
    ::close(pipe[1]);
    std::array<char, 4096> text{};
    const ssize_t got = ::read(pipe[0], text.data(), text.size());
    ::close(pipe[0]);
    ::waitpid(other, nullptr, 0);
    CHECK(status_of(std::string(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0)) == 403);
    CHECK(status_of(agent.get("/v1/version")) == 200);
}
