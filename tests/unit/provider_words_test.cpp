// Which answers of a model's provider are worth an event, and which are the request's own affair.
#include "agent/gateway/provider_words.hpp"
#include "agent/gateway/usage.hpp"
#include "support/catch.hpp"

using namespace pinfold;

TEST_CASE("a status says whether the provider failed, or the request was wrong") {
    for (const int status : {401, 402, 403, 408, 429, 500, 502, 503, 529}) {
        INFO(status);
        const auto told = judge_provider({.status = status, .is_turn = true});
        REQUIRE(told);
        CHECK(told->outcome == provider_outcome::refused);
        CHECK(told->status == status);
        CHECK(told->text.find(std::to_string(status)) != std::string::npos);
    }
    for (const int status : {301, 304, 400, 404, 405, 413, 418, 422}) {
        INFO(status);
        CHECK(!judge_provider({.status = status, .is_turn = true}));
    }
    const auto well = judge_provider({.status = 200, .is_turn = true});
    REQUIRE(well);
    CHECK(well->outcome == provider_outcome::answered);
    CHECK(!judge_provider({.status = 200})); // a list of models says nothing of its messages
}

TEST_CASE("the provider's own words are told, but not all that it may say") {
    const auto told = judge_provider(
        {.status = 429, .retry_after = "20", .error = std::string(10000, 'x'), .is_turn = true});
    REQUIRE(told);
    CHECK(
        told->text.starts_with("the model's provider allows no more requests for now (429), for 20 s: xxx"));
    CHECK(told->text.size() < 400);
    const auto dated = judge_provider({.status = 429, .retry_after = "Wed, 21 Oct\x1b[2J"});
    REQUIRE(dated);
    CHECK(dated->text == "the model's provider allows no more requests for now (429)");
}

TEST_CASE("an error is read from a body and from an event in the middle of a stream") {
    usage_counter body;
    body.begin("application/json");
    body.put(R"({"type":"error","error":{"type":"overloaded_error",)");
    body.put(R"("message":"Overloaded"}})");
    body.end();
    CHECK(body.error() == "Overloaded");
    usage_counter stream;
    stream.begin("text/event-stream; charset=utf-8");
    stream.put("event: message_start\ndata: "
               "{\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":9}}}\n\n");
    CHECK(stream.error().empty());
    stream.put("event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"Overloaded\"}}\n\n");
    stream.end();
    CHECK(stream.error() == "Overloaded");
    CHECK(stream.tokens_in() == 9);
    const auto told = judge_provider({.status = 200, .error = stream.error(), .is_turn = true});
    REQUIRE(told);
    CHECK(told->outcome == provider_outcome::broke_off);
}
