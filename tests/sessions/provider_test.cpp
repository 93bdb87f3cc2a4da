// What a session tells of its model's provider: the first of each failure, the same again rarely, and its end.
#include "agent/harness/kinds.hpp"
#include "agent/sessions/provider_state.hpp"
#include "support/catch.hpp"

#include <nlohmann/json.hpp>

using namespace pinfold;
using nlohmann::json;

namespace {

const provider_answer overloaded{.status = 529, .text = "is overloaded"};
const provider_answer refused{.status = 401, .text = "refuses"};
const provider_answer broken{.outcome = provider_outcome::broke_off, .status = 529};
const provider_answer well{.outcome = provider_outcome::answered, .status = 200};

template <typename T>
std::vector<T> only(const std::vector<harness::news>& list) {
    std::vector<T> found;
    for (const harness::news& each : list) {
        if (const T* one = std::get_if<T>(&each)) found.push_back(*one);
    }
    return found;
}

} // namespace

TEST_CASE("a failure is told of at once, again when it is another or lasts, and its end once") {
    provider_state state;
    const provider_state::clock::time_point begin{};
    CHECK(!state.hear(well, begin)); // nobody is told that all is well
    CHECK(!state.fails());
    const auto first = state.hear(overloaded, begin);
    REQUIRE(first);
    CHECK(first->kind == std::string("provider-error"));
    CHECK(json::parse(first->data) ==
          json{{"what", "refused"}, {"status", 529}, {"message", "is overloaded"}, {"times", 1}});
    for (int i = 0; i < 100; ++i) CHECK(!state.hear(overloaded, begin + std::chrono::milliseconds(29999)));
    const auto again = state.hear(overloaded, begin + provider_state::told_again);
    REQUIRE(again);
    CHECK(json::parse(again->data)["times"] == 102);
    CHECK(state.hear(refused, begin + provider_state::told_again)); // another status
    CHECK(!state.hear(refused, begin + provider_state::told_again));
    CHECK(state.hear(overloaded, begin + provider_state::told_again));
    CHECK(state.hear(broken, begin + provider_state::told_again)); // the same status in another way
    CHECK(state.fails());
    CHECK(json::parse(state.text())["what"] == "broke-off");
    const auto end = state.hear(well, begin + provider_state::told_again);
    REQUIRE(end);
    CHECK(end->kind == std::string("provider-ok"));
    CHECK(json::parse(end->data)["times"] == 106);
    CHECK(!state.fails());
    CHECK(!state.hear(well, begin + provider_state::told_again));
    const auto anew = state.hear(overloaded, begin + provider_state::told_again);
    REQUIRE(anew);
    CHECK(json::parse(anew->data)["times"] == 1);
}

TEST_CASE("a provider that fails in another way each time fills no log") {
    provider_state state;
    const provider_state::clock::time_point begin = provider_state::clock::time_point() +
                                                    std::chrono::hours(1);
    unsigned told = 0, ended = 0;
    for (int i = 0; i < 1001; ++i) {
        if (state.hear(i % 2 == 0 ? overloaded : refused, begin)) ++told;
        if (i % 3 == 0 && state.hear(well, begin)) ++ended;
    }
    CHECK(told == provider_state::most_at_once);
    CHECK(ended <= told);
    CHECK(state.fails());
    CHECK(state.hear(refused, begin + provider_state::told_again)); // and goes on after that time
}

TEST_CASE("what a harness says of its provider and of a subscription's limit is understood") {
    const auto talk = harness::claude().converse();
    const auto retry = only<harness::provider_failed>(talk->take(
        R"({"type":"system","subtype":"api_retry","attempt":1,"max_retries":10,"error_status":529,"error":"overloaded"})"));
    REQUIRE(retry.size() == 1);
    CHECK(retry[0].status == 529);
    CHECK(retry[0].text == "the model's provider failed: overloaded (529); Claude Code asks again");
    const auto hung_up = only<harness::provider_failed>(
        talk->take(R"({"type":"system","subtype":"api_retry","error_status":null})"));
    REQUIRE(hung_up.size() == 1);
    CHECK(hung_up[0].status == 0);
    CHECK(only<harness::provider_failed>(talk->take(R"({"type":"system","subtype":"status"})")).empty());

    const auto limit = only<harness::limit_reached>(talk->take(
        R"({"type":"rate_limit_event","rate_limit_info":{"status":"rejected","rateLimitType":"five_hour","resetsAt":1750000000,"isUsingOverage":false}})"));
    REQUIRE(limit.size() == 1);
    CHECK(limit[0].reason == "limit reached (5 hours)");
    CHECK(limit[0].until_seconds == 1750000000);
    for (const char* none : {R"({"status":"allowed"})", R"({"status":"rejected","isUsingOverage":true})"}) {
        const auto over = only<harness::limit_reached>(
            talk->take(std::string(R"({"type":"rate_limit_event","rate_limit_info":)") + none + "}"));
        REQUIRE(over.size() == 1);
        CHECK(over[0].reason.empty());
    }
    const auto other = harness::pi().converse()->take(
        R"({"type":"auto_retry_start","errorMessage":"529 busy"})");
    REQUIRE(only<harness::provider_failed>(other).size() == 1);
    CHECK(only<harness::provider_failed>(other)[0].text ==
          "the model's provider failed: 529 busy; pi asks again");
}

TEST_CASE("a limit holds until its window begins anew") {
    CHECK(!reached_limit{}.holds(1));
    CHECK(reached_limit{.reason = "r"}.holds(1));
    CHECK(reached_limit{.reason = "r", .until_seconds = 2}.holds(1));
    CHECK(!reached_limit{.reason = "r", .until_seconds = 2}.holds(2));
}
