// What an uncaged session tells of its model's provider: no gateway sees it, so it is what the harness says.
#include "session_fixture.hpp"
#include "support/catch.hpp"
#include "support/cli_process.hpp"

using namespace pinfold;
using namespace pinfold::test;
using Catch::Matchers::ContainsSubstring;

namespace {

json listed(const session_fixture& with) {
    return with.get("/v1/sessions").body["sessions"][0];
}

} // namespace

TEST_CASE("a harness that waits for its provider is told of, and the end of it") {
    session_fixture with;
    REQUIRE(with.create().status == 201);
    event_reader events = with.events();
    REQUIRE(with.send("retry 529").status == 202);
    const json told = events.wait_for("provider-error");
    REQUIRE(!told.is_null());
    CHECK(told["data"]["what"] == "refused");
    CHECK(told["data"]["status"] == 529);
    CHECK(told["data"]["times"] == 1);
    const json over = events.wait_for("provider-ok");
    REQUIRE(!over.is_null());
    CHECK(over["data"]["times"] == 1);
    CHECK(!with.info().contains("provider"));
    const cli pinfold(with.agent.api());
    const std::string shown = pinfold.run({"-q", "logs", "heron"}).out;
    CHECK_THAT(shown,
               ContainsSubstring("the model's provider failed: overloaded (529); Claude Code asks again"));
    CHECK_THAT(shown, ContainsSubstring("answers again"));
}

TEST_CASE("a limit that was reached stands in the list until its time, and not one that is only near") {
    session_fixture with;
    REQUIRE(with.create().status == 201);
    event_reader events = with.events();
    const auto turn = [&](const char* text) {
        REQUIRE(with.send(text).status == 202);
        REQUIRE(!events.wait_for_claude("result").is_null());
        REQUIRE(with.is("idle"));
    };
    turn("limit allowed_warning 3600");
    CHECK(!listed(with).contains("limited"));
    turn("limit rejected 3600");
    REQUIRE(listed(with).contains("limited"));
    CHECK(listed(with)["limited"]["reason"] == "limit reached (5 hours)");
    CHECK(listed(with)["limited"]["until"].get<std::string>().ends_with("Z"));
    CHECK(with.info()["limited"] == listed(with)["limited"]);
    CHECK_THAT(cli(with.agent.api()).run({"-q", "ls"}).out,
               ContainsSubstring("limit reached (5 hours) until 20"));
    turn("limit rejected -3600"); // a window that is over already
    CHECK(!listed(with).contains("limited"));
    turn("limit rejected 3600");
    CHECK(listed(with).contains("limited"));
    turn("limit allowed 3600");
    CHECK(!listed(with).contains("limited"));
}
