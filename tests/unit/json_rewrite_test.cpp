#include "agent/proxy/json_rewrite.hpp"
#include "support/catch.hpp"

#include <array>
#include <utility>

namespace pinfold {

namespace {

constexpr std::array<std::string_view, 2> message{"message", "metadata"};

std::string into_message(std::string text) {
    const auto made = rewrite_json(std::move(text), {.path = message, .key = "from", .value = "w\"1"});
    if (!made) return "refused: " + made.error();
    return made->text + (made->placed ? "" : " (not placed)");
}

std::string into_root(std::string text) {
    const auto made = rewrite_json(std::move(text), {.path = {}, .key = "session", .value = "w1"});
    return made ? made->text : "refused: " + made.error();
}

} // namespace

TEST_CASE("the agent's member takes the place of the sender's, whatever that was") {
    for (const char* theirs : {R"("w2")", "null", "7", "[1,{\"session\":2}]", R"({"session":{"a":[]}})"}) {
        CAPTURE(theirs);
        CHECK(into_root(std::string(R"({"session":)") + theirs + R"(,"state":"done"})") ==
              R"({"state":"done","session":"w1"})");
    }
    CHECK(into_root("{}") == R"({"session":"w1"})");
    CHECK(into_root(R"({"s\u0065ssion":"w2"})") == R"({"session":"w1"})"); // a key by another spelling
    CHECK(into_root(R"({"a":{"session":"x"}})") == R"({"a":{"session":"x"},"session":"w1"})");
}

TEST_CASE("its object is made where there is none, and nowhere but at the end of its path") {
    CHECK(into_message(R"({"message":{"id":1}})") == R"({"message":{"id":1,"metadata":{"from":"w\"1"}}})");
    for (const char* theirs : {"null", "\"x\"", "[{\"from\":1}]", "2.50", "true"}) {
        CAPTURE(theirs);
        CHECK(into_message(std::string(R"({"message":{"metadata":)") + theirs + R"(,"id":1}})") ==
              R"({"message":{"metadata":{"from":"w\"1"},"id":1}})");
    }
    CHECK(into_message(R"({"message":{"metadata":{"t":1,"from":{"a":[2]}}},"metadata":{"from":"x"}})") ==
          R"({"message":{"metadata":{"t":1,"from":"w\"1"}},"metadata":{"from":"x"}})");
    for (const char* none : {R"({"a":{"message":{}}})", R"({"message":[{"metadata":{}}]})",
                             R"({"message":7})", R"([{"message":{}}])"}) {
        CAPTURE(none);
        const std::string made = into_message(none);
        CHECK((made == std::string(none) + " (not placed)" || made == "refused: it is no JSON object"));
    }
}

TEST_CASE("what else was sent stays as it was, and in its order") {
    const std::string sent =
        R"({"z":[1,-0,1.50,1E400,123456789012345678901234567890],"a":{"b":"\" \\ / \u0000 é 😀"},"n":null,"t":true})";
    const auto made = rewrite_json(sent, {.path = message, .key = "from", .value = "x"});
    CHECK_FALSE(made); // a number beyond every double
    const std::string lawful =
        R"({"z":[1,-0,1.50,1e-7,1e-999,1.7e308,123456789012345678901234567890],"a":{"b":"\" \\ / \u0000 é 😀"},"n":null,"t":true})";
    CHECK(into_message(lawful) == lawful + " (not placed)");
    CHECK(into_message("{ \"a\" :\t[ ] ,\"\\u00e9\": \"\\ud83d\\ude00\\/\" }\n") ==
          "{\"a\":[],\"é\":\"😀/\"} (not placed)");
    const std::string escaped = R"({"a":"0123456789abcdef\u001B\u001A\u001F0123456789abcdef"})";
    CHECK(into_message(escaped) == escaped + " (not placed)");
    const auto asked = rewrite_json(R"({"params":{"method":"a"},"method":"SendMessage","x":["method","b"]})",
                                    {.path = message, .key = "from", .value = "x"});
    REQUIRE(asked);
    CHECK(asked->method == "SendMessage");
}

TEST_CASE("text that two parsers read differently is refused, also where it would not go on") {
    std::string many_keys = "{";
    for (int i = 0; i < 40; ++i) many_keys += "\"k" + std::to_string(i) + "\":0,";
    std::string many_values = R"({"a":[0)";
    for (int i = 0; i < 200'000; ++i) many_values += ",0";
    const auto deep = [](std::size_t count) {
        return R"({"a":)" + std::string(count, '[') + std::string(count, ']') + "}";
    };
    CHECK(into_root(deep(63)).find("session") != std::string::npos);
    CHECK(into_root(many_keys + R"("k40":0})").find(R"("k40":0,"session")") != std::string::npos);
    CHECK(into_root(R"({"a":{"k":1},"b":{"k":1}})").find("session") != std::string::npos);
    for (const auto& [bad, why] : {
             std::pair<std::string, const char*>{R"({"a":1,"a":2})", "'a' stands twice"},
             {R"({"a":{"k":1,"\u006b":2}})", "'k' stands twice"},
             {R"({"session":"w1","session":"w2"})", "'session' stands twice"},
             {R"({"session":{"k":1,"k":2}})", "'k' stands twice"},
             {many_keys + R"("k39":0})", "'k39' stands twice"},
             {many_keys + R"("k3":0})", "'k3' stands twice"},
             {deep(64), "nested more than 64 deep"},
             {std::string(1U << 20U, '['), "no JSON object"},
             {many_values + "]}", "more than 200,000 values"},
             {"{\"a\":\"\xc3\"}", "no UTF-8"},
             {"{\"\xed\xa0\x80\":1}", "no UTF-8"},
             {"{\"a\":\"\xf0\x82\x82\xac\"}", "no UTF-8"},
             {R"({"a":"\udc00"})", "no UTF-8"},
             {R"({"session":"\udc00"})", "no UTF-8"},
             {R"({"a":"\ud800"})", "no JSON"},
             {std::string("{}\0", 3), "no JSON"},
             {std::string("{\"a\":\"x\0\"}", 10), "no JSON"},
             {"{} {}", "no JSON"},
             {"\xef\xbb\xbf{}", "no JSON"},
             {"", "no JSON"},
             {"{", "no JSON"},
             {R"({"a":01})", "no JSON"},
             {R"({"a":1,})", "no JSON"},
             {R"({'a':1})", "no JSON"},
             {R"({"a":NaN})", "no JSON"},
             {R"({"a":1}/**/)", "no JSON"},
             {"{\"a\":\"\n\"}", "no JSON"},
             {R"({"a":")" + std::string(20, '\x1b') + R"("})", "no JSON"},
             {R"({"a":4e308})", "no double"},
             {R"({"a":-)" + std::string(309, '7') + "}", "no JSON"},
             {"7", "no JSON object"},
         }) {
        CAPTURE(bad.substr(0, 60));
        const std::string made = into_root(bad);
        CHECK(made.starts_with("refused: "));
        CHECK(made.find(why) != std::string::npos);
    }
}

} // namespace pinfold
