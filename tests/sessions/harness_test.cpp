// Harnesses as translations: lines as the real programs print them, and what becomes of them.
#include "agent/harness/kinds.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

using namespace pinfold::harness;
using nlohmann::json;

namespace {

template <typename T>
std::vector<T> only(const std::vector<news>& list) {
    std::vector<T> found;
    for (const news& each : list) {
        if (const T* one = std::get_if<T>(&each)) found.push_back(*one);
    }
    return found;
}

std::vector<std::string> lines_of(line_splitter& splitter, std::string_view bytes) {
    std::vector<std::string> list;
    splitter.put(bytes, [&](std::string_view line) { list.emplace_back(line); });
    return list;
}

} // namespace

TEST_CASE("lines come whole, however the stream is cut, and one that is too long is dropped alone") {
    line_splitter splitter(8);
    CHECK(lines_of(splitter, "one\ntw") == std::vector<std::string>{"one"});
    CHECK(lines_of(splitter, "o\r\n\nthree\n") == std::vector<std::string>{"two", "three"});
    CHECK(lines_of(splitter, "12345678\n") == std::vector<std::string>{"12345678"}); // exactly the limit
    CHECK(lines_of(splitter, "123456789").empty());
    CHECK(lines_of(splitter, "more of it\nnext\n") == std::vector<std::string>{"next"});
    CHECK(splitter.dropped() == 1);
    CHECK(lines_of(splitter, "rest").empty());
    std::string last;
    splitter.end([&](std::string_view line) { last = line; });
    CHECK(last == "rest");
}

TEST_CASE("claude's lines become events, states and questions") {
    const auto talk = claude().converse();
    const auto begun = talk->take(R"({"type":"system","subtype":"init","session_id":"c-1","model":"m-1"})");
    REQUIRE(only<conversation>(begun).size() == 1);
    CHECK(only<conversation>(begun)[0].id == "c-1");
    CHECK(only<conversation>(begun)[0].model == "m-1");
    CHECK(only<said>(begun).size() == 1);
    CHECK(only<turn_began>(begun).empty());

    const auto piece = talk->take(
        R"({"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"He"}}})");
    REQUIRE(only<partial>(piece).size() == 1);
    CHECK(only<partial>(piece)[0].text == "He");
    CHECK(only<said>(piece).empty());

    const std::string whole =
        R"({"type":"assistant","session_id":"c-1","message":{"content":[],"usage":{"input_tokens":7,"output_tokens":2}}})";
    const auto spoken = talk->take(whole);
    CHECK(only<turn_began>(spoken).size() == 1);
    REQUIRE(only<said>(spoken).size() == 1);
    CHECK(only<said>(spoken)[0].json == whole); // as it stands

    const auto question = talk->take(
        R"({"type":"control_request","request_id":"r-1","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"}}})");
    REQUIRE(only<asks>(question).size() == 1);
    const asks asked = only<asks>(question)[0];
    CHECK(asked.tool == "Bash");
    CHECK(!asked.is_question);
    const json yes = json::parse(*talk->reply(asked, {.allow = true}));
    CHECK(yes["response"]["request_id"] == "r-1");
    CHECK(yes["response"]["response"]["behavior"] == "allow");
    CHECK(yes["response"]["response"]["updatedInput"]["command"] == "ls");
    const json no = json::parse(*talk->reply(asked, {.allow = false, .message = "not here"}));
    CHECK(no["response"]["response"]["behavior"] == "deny");
    CHECK(no["response"]["response"]["message"] == "not here");
    CHECK(only<asks_no_more>(talk->take(R"({"type":"control_cancel_request","request_id":"r-1"})"))[0].id ==
          "r-1");

    const auto ended = talk->take(
        R"({"type":"result","subtype":"success","is_error":false,"modelUsage":{"m-1":{"contextWindow":200000}}})");
    REQUIRE(only<turn_ended>(ended).size() == 1);
    CHECK(!only<turn_ended>(ended)[0].failed);
    CHECK(only<turn_ended>(ended)[0].context_used == 9);
    CHECK(only<turn_ended>(ended)[0].context_window == 200000);
    CHECK(only<turn_ended>(talk->take(R"({"type":"result","subtype":"error_during_execution"})"))[0].failed);
}

TEST_CASE("garbage is no news, in any harness that speaks JSON") {
    for (const kind* each : {&claude(), &pi()}) {
        const auto talk = each->converse();
        const std::string deep(100'000, '[');
        for (const std::string& line : std::vector<std::string>{
                 "", "warning: something", "{", "[]", "null", "{\"type\":7}", R"({"type":"assistant")",
                 "\xff\xfe", deep, R"({"type":"stream_event","event":[1]})",
                 R"({"type":"message_end","message":[]})",
                 R"({"type":"response","id":"pinfold-state","data":3})"}) {
            INFO(each->name() << " " << line.substr(0, 40));
            for (const news& found : talk->take(line)) CHECK(!std::holds_alternative<asks>(found));
        }
    }
}

TEST_CASE("what claude is started with: permissions by control requests, its conversation resumed") {
    start how{.session = "heron", .machine = "pi5", .program = "/opt/claude"};
    std::vector<std::string> words = claude().arguments(how);
    const auto has = [&](const std::string& word) { return std::ranges::find(words, word) != words.end(); };
    CHECK(words.front() == "/opt/claude");
    CHECK(has("--permission-prompt-tool"));
    CHECK(!has("--dangerously-skip-permissions"));
    CHECK(!has("--resume"));
    how.conversation = "c-1";
    how.skip_permissions = true;
    words = claude().arguments(how);
    CHECK(has("--dangerously-skip-permissions"));
    CHECK(*std::next(std::ranges::find(words, "--resume")) == "c-1");
}

TEST_CASE("pi's events read as claude's") {
    const auto talk = pi().converse();
    CHECK(json::parse(talk->opening())["type"] == "get_state");
    const auto state = talk->take(
        R"({"type":"response","id":"pinfold-state","success":true,"data":{"sessionId":"s-1","sessionFile":"/x/s-1.jsonl","model":{"provider":"p","id":"m","contextWindow":9}}})");
    REQUIRE(only<conversation>(state).size() == 1);
    CHECK(only<conversation>(state)[0].id == "/x/s-1.jsonl");
    CHECK(only<conversation>(state)[0].model == "p/m");
    CHECK(json::parse(only<said>(state)[0].json)["subtype"] == "init");
    CHECK(only<turn_began>(talk->take(R"({"type":"agent_start"})")).size() == 1);
    CHECK(only<partial>(talk->take(
              R"({"type":"message_update","assistantMessageEvent":{"type":"text_delta","delta":"He"}})"))[0]
              .text == "He");
    const auto spoken = talk->take(
        R"({"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"Hello"},{"type":"toolCall","id":"t","name":"bash","arguments":{"command":"ls"}}],"usage":{"input":3,"output":4,"totalTokens":7},"stopReason":"toolUse"}})");
    const json told = json::parse(only<said>(spoken)[0].json);
    CHECK(told["type"] == "assistant");
    CHECK(told["message"]["content"][0]["text"] == "Hello");
    CHECK(told["message"]["content"][1]["name"] == "bash");
    const auto result = talk->take(
        R"({"type":"message_end","message":{"role":"toolResult","toolCallId":"t","isError":false,"content":[{"type":"text","text":"out"}]}})");
    CHECK(json::parse(only<said>(result)[0].json)["message"]["content"][0]["tool_use_id"] == "t");
    const auto ended = talk->take(R"({"type":"agent_end","messages":[]})");
    CHECK(!only<turn_ended>(ended)[0].failed);
    CHECK(only<turn_ended>(ended)[0].context_used == 7);
    CHECK(json::parse(only<said>(ended)[0].json)["usage"]["output_tokens"] == 4);
    const auto asked = only<asks>(talk->take(
        R"({"type":"extension_ui_request","id":"9","method":"select","title":"Which?","options":["a","b"]})"));
    REQUIRE(asked.size() == 1);
    CHECK(asked[0].id == "ui-9");
    CHECK(!talk->reply(asked[0], {.allow = true}).has_value()); // without a choice it is no answer
    const json chosen = json::parse(*talk->reply(asked[0], {.allow = true, .answers = {{"Which?", "b"}}}));
    CHECK(chosen["id"] == "9");
    CHECK(chosen["value"] == "b");
    const auto refused = talk->take(
        R"({"type":"response","id":"pinfold-prompt","success":false,"error":"no model"})");
    CHECK(only<turn_ended>(refused)[0].failed);
}

TEST_CASE("a command is its own words, and each line it prints is said") {
    const auto talk = command().converse();
    CHECK(command().arguments({.command = {"make", "test"}}) == std::vector<std::string>{"make", "test"});
    CHECK(
        json::parse(only<said>(talk->take("\xff ok"))[0].json)["message"]["content"][0]["text"].is_string());
    CHECK(talk->message("hi") == "hi\n");
    CHECK(!talk->interrupt().has_value());
}
