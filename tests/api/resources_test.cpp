#include "support/agent_fixture.hpp"
#include "support/catch.hpp"
#include "support/fake_keeper.hpp"

#include <arpa/inet.h>
#include <nlohmann/json.hpp>

using namespace pinfold::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

json body_of(const std::string& answer) {
    const std::size_t end = answer.find("\r\n\r\n");
    return json::parse(answer.substr(end + 4), nullptr, false);
}

struct with_cage {
    agent_fixture agent;
    fake_keeper keeper{agent.keeper_socket()};
    stdio_peer peer{agent.api(), "/v1/cages",
                    R"({"name":"heron","mode":"sealed","dir":"/var/tmp","argv":["sleep","600"]})"};
    with_cage() { peer.wait_for(PINFOLD_FRAME_STARTED); }
};

pinfold_denial lan_denial(std::uint64_t cage) {
    pinfold_denial what{};
    timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    what.time_ns = static_cast<std::uint64_t>(now.tv_sec) * 1000000000U;
    what.cage = cage;
    what.pid = 42;
    what.act = PINFOLD_ACT_CONNECT;
    what.rule = PINFOLD_RULE_PRIVATE;
    what.family = AF_INET;
    what.protocol = IPPROTO_TCP;
    what.port = 80;
    ::inet_pton(AF_INET, "192.168.1.1", what.address);
    std::strncpy(what.comm, "curl\x1b[31m", sizeof what.comm - 1);
    return what;
}

} // namespace

TEST_CASE("cages are listed and shown with their limits, notes and figures") {
    with_cage world;
    const json list = body_of(world.agent.get("/v1/cages"));
    REQUIRE(list.at("cages").size() == 1);
    const json cage = body_of(world.agent.get("/v1/cages/heron"));
    CHECK(cage.at("name") == "heron");
    CHECK(cage.at("mode") == "sealed");
    CHECK(cage.at("dir") == "/var/tmp");
    CHECK(cage.at("limits") == json({{"memory", 4294967296}, {"cpus", 2.0}, {"pids", 2048}}));
    CHECK(cage.at("notes").at(0) == "limits: not enforced: memory");
    CHECK(cage.at("network").at("tcp_flows") == 0);
    CHECK(cage.at("started") == "2023-11-14T22:13:20Z");
    CHECK_THAT(world.agent.get("/v1/cages/ibis"), ContainsSubstring("HTTP/1.1 404"));
}

TEST_CASE("limits are changed one by one, and what cannot be is refused") {
    with_cage world;
    const json changed = body_of(world.agent.post("/v1/cages/heron/limits", R"({"memory":1073741824})"));
    CHECK(changed == json({{"memory", 1073741824}, {"cpus", 2.0}, {"pids", 2048}}));
    const json again = body_of(world.agent.post("/v1/cages/heron/limits", R"({"cpus":0.5,"pids":100})"));
    CHECK(again == json({{"memory", 1073741824}, {"cpus", 0.5}, {"pids", 100}}));
    CHECK_THAT(world.agent.post("/v1/cages/heron/limits", "{}"), ContainsSubstring("HTTP/1.1 400"));
    CHECK_THAT(world.agent.post("/v1/cages/heron/limits", R"({"pids":1})"),
               ContainsSubstring("HTTP/1.1 400"));
    CHECK_THAT(world.agent.post("/v1/cages/ibis/limits", R"({"pids":100})"),
               ContainsSubstring("HTTP/1.1 404"));
}

TEST_CASE("one more program runs in a cage, and ends without it") {
    with_cage world;
    stdio_peer more(world.agent.api(), "/v1/cages/heron/exec", R"({"argv":["sh","-c","echo in; exit 3"]})");
    CHECK(more.collect(PINFOLD_FRAME_STDOUT) == "in\n");
    CHECK(json::parse(more.last().payload).at("status") == 3);
    CHECK_THAT(world.agent.get("/v1/cages/heron"), ContainsSubstring("HTTP/1.1 200"));
    stdio_peer nowhere(world.agent.api(), "/v1/cages/ibis/exec", R"({"argv":["true"]})");
    nowhere.collect(PINFOLD_FRAME_STDOUT);
    CHECK(nowhere.last().type == PINFOLD_FRAME_ERROR);
    CHECK_THAT(nowhere.last().payload, ContainsSubstring("no cage"));
}

TEST_CASE("DELETE ends a cage and an uncaged program, and their clients learn it") {
    with_cage world;
    CHECK_THAT(world.agent.raw("DELETE /v1/cages/heron HTTP/1.1\r\nConnection: close\r\n\r\n"),
               ContainsSubstring("HTTP/1.1 204"));
    world.peer.collect(PINFOLD_FRAME_STDOUT);
    CHECK(json::parse(world.peer.last().payload).at("status") == 137);
    CHECK_THAT(world.agent.raw("DELETE /v1/cages/heron HTTP/1.1\r\nConnection: close\r\n\r\n"),
               ContainsSubstring("HTTP/1.1 404"));

    stdio_peer uncaged(world.agent.api(), "/v1/cages",
                       R"({"name":"free","mode":"uncaged","dir":"/var/tmp","argv":["sleep","600"]})");
    uncaged.wait_for(PINFOLD_FRAME_STARTED);
    CHECK_THAT(world.agent.raw("DELETE /v1/cages/free HTTP/1.1\r\nConnection: close\r\n\r\n"),
               ContainsSubstring("HTTP/1.1 204"));
    uncaged.collect(PINFOLD_FRAME_STDOUT);
    CHECK(json::parse(uncaged.last().payload).at("status") == 137);
}

TEST_CASE("a plan is the keeper's list of steps") {
    with_cage world;
    const json plan = body_of(
        world.agent.post("/v1/plan", R"({"name":"ibis","mode":"sealed","dir":"/var/tmp","argv":["true"]})"));
    CHECK(plan.at("steps").at(0) == "make the cgroup of ibis");
    CHECK_THAT(world.agent.post("/v1/plan", R"({"mode":"uncaged","dir":"/var/tmp","argv":["true"]})"),
               ContainsSubstring("HTTP/1.1 400"));
}

TEST_CASE("denials are kept, filtered by cage, followed as they come, and counted in the end") {
    with_cage world;
    const auto follower = connect_unix(world.agent.api());
    send_text(follower, "GET /v1/denials?follow=1&cage=heron HTTP/1.1\r\n\r\n");
    world.keeper.deny(lan_denial(world.keeper.last_cage));
    world.keeper.deny(lan_denial(12345));
    CHECK(eventually(
        [&] { return world.agent.get("/v1/denials").find("0000000000003039") != std::string::npos; }));
    const std::string of_heron = world.agent.get("/v1/denials?cage=heron");
    const json one = body_of(of_heron);
    CHECK(one.at("cage") == "heron");
    CHECK(one.at("address") == "192.168.1.1");
    CHECK(one.at("port") == 80);
    CHECK(one.at("protocol") == "tcp");
    CHECK(one.at("act") == "connect");
    CHECK(one.at("rule") == "private");
    const std::string followed = receive_all(follower, std::chrono::milliseconds(500));
    CHECK_THAT(followed, ContainsSubstring("Transfer-Encoding: chunked"));
    CHECK_THAT(followed, ContainsSubstring("192.168.1.1"));
    CHECK(followed.find("0000000000003039") == std::string::npos);
    CHECK_THAT(world.agent.get("/v1/denials?flow=1"), ContainsSubstring("HTTP/1.1 400"));
    world.peer.send_number(PINFOLD_FRAME_SIGNAL, SIGTERM);
    world.peer.collect(PINFOLD_FRAME_STDOUT);
    CHECK(json::parse(world.peer.last().payload).at("denials") == 1);
}

TEST_CASE("doctor shows the facts and what the probe tried in a cage of each mode") {
    with_cage world;
    const json report = body_of(world.agent.get("/v1/doctor"));
    CHECK(report.at("facts").at(0).at("name") == "kernel");
    REQUIRE(report.at("probes").size() == 9);
    CHECK(report.at("probes").at(3) ==
          json({{"mode", "sealed"}, {"name", "bpf"}, {"refused", true}, {"detail", "EPERM"}}));
    CHECK(report.at("probes").at(8).at("refused") == false); // user namespaces are open in a caged cage
    CHECK(report.at("denials") == json({{"sealed", 2}, {"caged", 2}}));
    CHECK(report.at("problems") == json::array());
    CHECK(report.at("ok") == true);
    CHECK(body_of(world.agent.get("/v1/denials")).is_discarded()); // what the doctor tried is nobody's denial
}
