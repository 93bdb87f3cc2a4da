// A sealed cage starts only on a machine that was seen to enforce what sealed promises.
#include "support/agent_fixture.hpp"
#include "support/catch.hpp"
#include "support/fake_keeper.hpp"

#include <memory>
#include <nlohmann/json.hpp>

using namespace pinfold::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

// How it ended: the exit frame's status, or the error.
json run(const agent_fixture& agent, const std::string& mode) {
    stdio_peer peer(agent.api(), "/v1/cages",
                    R"({"name":"heron","mode":")" + mode + R"(","dir":"/var/tmp","argv":["true"]})");
    peer.collect(PINFOLD_FRAME_STDOUT);
    return json::parse(peer.last().payload, nullptr, false);
}

} // namespace

TEST_CASE("a machine whose scratch cage allows what it must refuse starts no sealed cage") {
    agent_fixture agent;
    auto keeper = std::make_unique<fake_keeper>(agent.keeper_socket(), "a private address");
    const json refused = run(agent, "sealed");
    CHECK_THAT(refused.at("error").get<std::string>(),
               ContainsSubstring("cannot start \"heron\" sealed") &&
                   ContainsSubstring(
                       "a sealed cage allows what it must refuse: a private address (guard destinations)") &&
                   ContainsSubstring("pinfold doctor"));
    CHECK(refused.at("status") == 125);
    CHECK(keeper->makes == 0); // no cage was asked for
    CHECK(run(agent, "caged").at("status") == 0);
    keeper.reset(); // a machine that was mended needs no new agent
    REQUIRE(eventually(
        [&] { return agent.get("/v1/version").find("\"connected\":false") != std::string::npos; }));
    keeper = std::make_unique<fake_keeper>(agent.keeper_socket());
    CHECK(run(agent, "sealed").at("status") == 0);
}

TEST_CASE("a keeper that lacks a guard is no keeper for a sealed cage") {
    agent_fixture agent;
    fake_keeper keeper(agent.keeper_socket(), "",
                       pinfold::wire::fact{.name = "guard sockets", .value = "not attached", .good = false});
    const json refused = run(agent, "sealed");
    CHECK_THAT(refused.at("error").get<std::string>(), ContainsSubstring("guard sockets: not attached"));
    CHECK(keeper.makes == 0);
    CHECK(run(agent, "caged").at("status") == 0);
}

TEST_CASE("where all is well the machine is looked at once, and each sealed cage starts") {
    agent_fixture agent;
    fake_keeper keeper(agent.keeper_socket());
    for (int i = 0; i < 3; ++i) CHECK(run(agent, "sealed").at("status") == 0);
    CHECK(keeper.makes == 3);
    CHECK(keeper.probes == 1);
}
