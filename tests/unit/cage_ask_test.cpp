#include "agent/proxy/cage_ask.hpp"
#include "agent/proxy/json_shape.hpp"
#include "agent/proxy/machines.hpp"
#include "support/catch.hpp"

#include <nlohmann/json.hpp>

namespace pinfold {

namespace {

using nlohmann::json;

const std::vector<machine> machines{{"laptop", "fd12::1"}, {"pi5", "fd12::7"}, {"old", "198.19.0.4"}};
const proxy_asker caged{.session = "w1"}, sealed{.session = "review", .sealed = true};

int status_of(const std::string& method, const std::string& target, const proxy_asker& by = caged) {
    const auto judged = judge_head({.method = method, .target = target}, by, machines);
    return judged ? 200 : judged.error().status;
}

std::expected<json, proxy_refusal> rewritten(const std::string& target, const json& body,
                                             const proxy_asker& by = caged) {
    const proxy_head head{.method = "POST", .target = target};
    const auto judged = judge_head(head, by, machines);
    if (!judged) return std::unexpected(judged.error());
    const auto made = rewrite_body(*judged, head, body.dump(), by, "laptop");
    if (!made) return std::unexpected(made.error());
    return json::parse(*made);
}

json ask(const std::string& method, json params = {}) {
    return {{"jsonrpc", "2.0"}, {"id", 1}, {"method", method}, {"params", std::move(params)}};
}

} // namespace

TEST_CASE("a cage's tools may ask for machines, sessions, cards, tasks and files, and for nothing else") {
    for (const char* lawful : {"/machines", "/peer/fd12::7/v1/sessions", "/peer/fd12::7/v1/sessions?all=1",
                               "/peer/fd12::7/.well-known/agent-card.json",
                               "/peer/198.19.0.4/a2a/rev/.well-known/agent-card.json"})
        CHECK(status_of("GET", lawful) == 200);
    for (const char* lawful :
         {"/peer/fd12::7/a2a", "/peer/fd12::7/a2a/rev", "/peer/fd12::1/v1/tasks/w1:cli-9",
          "/peer/fd12::7/v1/sessions/rev/drop?name=a.txt"})
        CHECK(status_of("POST", lawful) == 200);
    for (const char* refused :
         {"/peer/fd12::1/v1/sessions", "/peer/fd12::1/v1/sessions/w1/cage",
          "/peer/fd12::1/v1/sessions/w1/settings", "/peer/fd12::1/v1/sessions/w1/messages",
          "/peer/fd12::1/v1/tasks/w1:1/ack", "/peer/fd12::1/v1/cages", "/peer/fd12::1/a2a/a/b",
          "/peer/fd12::1/v1/sessions/w1/drop/x"})
        CHECK(status_of("POST", refused) == 403);
    for (const char* refused :
         {"/peer/fd12::1/v1/harnesses", "/peer/fd12::1/v1/peers", "/peer/fd12::1/v1/sessions/w1/events",
          "/peer/fd12::1/v1/sessions/w1/drop", "/peer/fd12::1/v1/denials"})
        CHECK(status_of("GET", refused) == 403);
    CHECK(status_of("DELETE", "/peer/fd12::1/v1/sessions/w1") == 403);
    CHECK(status_of("POST", "/machines") == 405);
    CHECK(status_of("GET", "/") == 400);
    CHECK(status_of("GET", "/elsewhere") == 404);
}

TEST_CASE("a sealed cage may report on a task, and ask nothing") {
    CHECK(status_of("POST", "/peer/fd12::1/v1/tasks/review:1", sealed) == 200);
    CHECK(status_of("GET", "/machines", sealed) == 200); // how it learns where its own agent is
    for (const char* refused :
         {"/peer/fd12::1/a2a", "/peer/fd12::7/a2a/rev", "/peer/fd12::1/v1/sessions/w1/drop"})
        CHECK(status_of("POST", refused, sealed) == 403);
    CHECK(status_of("GET", "/peer/fd12::1/v1/sessions", sealed) == 403);
}

TEST_CASE("only machines of the list are dialled, by the address that stands there") {
    CHECK(status_of("GET", "/peer/fd12::8/v1/sessions") == 403);
    CHECK(status_of("GET", "/peer/127.0.0.1/v1/sessions") == 403);
    CHECK(status_of("GET", "/peer/example.com/v1/sessions") == 400);
    CHECK(status_of("GET", "/peer/fd12::7%25eth0/v1/sessions") == 400);
    const auto judged = judge_head({.method = "GET", .target = "/peer/FD12:0:0:0:0:0:0:7/v1/sessions"}, caged,
                                   machines);
    REQUIRE(judged);
    CHECK(judged->addr == "fd12::7");
    CHECK_FALSE(judged->own);
    CHECK(judge_head({.method = "GET", .target = "/peer/fd12::7/v1/sessions"}, caged, {}).error().status ==
          502);
}

TEST_CASE("a path that could be read in two ways is refused, and what goes on is encoded anew") {
    for (const char* odd : {"/peer/fd12::1/a2a/..", "/peer/fd12::1/a2a/%2e%2e", "/peer/fd12::1/a2a/a%2Fb",
                            "/peer/fd12::1//a2a", "/peer/fd12::1/a2a/a%00", "/peer/fd12::1/a2a/a%0d%0aX",
                            "/peer/fd12::1/a2a/%252e", "/peer/fd12::1/a2a/%", "/peer/fd12::1/a2a/%zz",
                            "/peer/fd12::1/a2a/a\\b", "peer/fd12::1/a2a", "http://x/peer/fd12::1/a2a",
                            "/peer/fd12::1/a2a/a%23b", "/peer/fd12::1/a2a/a%3Fb", "/peer/fd12::1/a2a/"})
        CHECK(status_of("POST", odd) == 400);
    CHECK(status_of("GET", "/peer/fd12::7/v1/sessions?a b") == 400);
    CHECK(status_of("POST", "/peer/fd12::7/a2a?x=1") == 400);
    const auto judged = judge_head({.method = "POST", .target = "/peer/fd12::7/a2a/caf%C3%A9%20x"}, caged,
                                   machines);
    REQUIRE(judged);
    CHECK(judged->path == "/a2a/caf%C3%A9%20x");
}

TEST_CASE("its own agent writes who asks, whatever the cage says") {
    const json message{{"messageId", "m"},
                       {"metadata", {{"shrooms/from", "elsewhere/boss"}, {"shrooms/title", "t"}}}};
    for (const char* method : {"SendMessage", "SendStreamingMessage"}) {
        const auto made = rewritten("/peer/fd12::7/a2a/rev", ask(method, {{"message", message}}));
        REQUIRE(made);
        CHECK((*made)["params"]["message"]["metadata"]["shrooms/from"] == "laptop/w1");
        CHECK((*made)["params"]["message"]["metadata"]["shrooms/title"] == "t");
    }
    const auto bare = rewritten("/peer/fd12::7/a2a", ask("SendMessage", {{"message", {{"metadata", 7}}}}));
    REQUIRE(bare);
    CHECK((*bare)["params"]["message"]["metadata"] == json{{"shrooms/from", "laptop/w1"}});
    CHECK(rewritten("/peer/fd12::7/a2a", ask("SendMessage")).error().status == 400);
    CHECK(rewritten("/peer/fd12::7/a2a", ask("GetTask", {{"id", "rev:1"}})));
    for (const char* refused : {"CancelTask", "ListTasks", "SubscribeToTask", "sendmessage", ""})
        CHECK(rewritten("/peer/fd12::7/a2a", ask(refused)).error().status == 403);
}

TEST_CASE("a task is reported on as the session's own, at its own machine") {
    const auto made = rewritten("/peer/fd12::1/v1/tasks/w1:1", {{"session", "other"}, {"state", "done"}});
    REQUIRE(made);
    CHECK((*made)["session"] == "w1");
    CHECK((*made)["state"] == "done");
    CHECK(rewritten("/peer/fd12::7/v1/tasks/w1:1", {{"state", "done"}}).error().status == 403);
    const proxy_head head{.method = "POST", .target = "/peer/fd12::1/v1/tasks/w1:1"};
    CHECK(json::parse(*rewrite_body(*judge_head(head, caged, machines), head, "", caged, "laptop")) ==
          json{{"session", "w1"}});
}

TEST_CASE("the head that goes on has what the agent wrote, and of the cage only type and accept") {
    const proxy_head head{.method = "POST",
                          .target = "/peer/fd12::7/a2a/rev",
                          .content_type = "application/json",
                          .accept = "*/*"};
    const auto judged = judge_head(head, caged, machines);
    REQUIRE(judged);
    CHECK(forwarded_head(*judged, head, caged, 12) ==
          "POST /a2a/rev HTTP/1.1\r\nHost: [fd12::7]:7387\r\nX-Shrooms-Caged: w1\r\nContent-Type: "
          "application/json\r\n"
          "Accept: */*\r\nContent-Length: 12\r\n\r\n");
    CHECK(forwarded_head(*judged, head, {.session = "a\r\nb"}, 0).find("X-Shrooms-Caged: a%0D%0Ab\r\n") !=
          std::string::npos);
}

TEST_CASE(
    "JSON that would grow in memory, or that two parsers read differently, is refused before it is built") {
    CHECK(judge_json_shape(R"({"a":[1,2,{"b":null}],"c":"x"})") == std::nullopt);
    CHECK(judge_json_shape(R"({"a":{"k":1},"b":{"k":1}})") == std::nullopt);
    CHECK(judge_json_shape(R"({"method":"GetTask","method":"CancelTask"})"));
    CHECK(judge_json_shape(R"({"a":{"k":1,"k":2}})"));
    CHECK(judge_json_shape(std::string(1 << 20, '[')));
    CHECK(judge_json_shape(std::string(64, '[') + std::string(64, ']')) == std::nullopt);
    CHECK(judge_json_shape(std::string(65, '[') + std::string(65, ']')));
    CHECK(judge_json_shape("[" + std::string(400'000, ',') + "]"));
    std::string many = "[0";
    for (int i = 0; i < 200'000; ++i) many += ",0";
    CHECK(judge_json_shape(many + "]"));
    CHECK(judge_json_shape("{"));
    CHECK(judge_json_shape(""));
}

TEST_CASE("a body that two parsers read differently is not rewritten, whatever its kind") {
    for (const auto& [path, body] :
         {std::pair{"/peer/fd12::7/a2a/rev",
                    R"({"method":"GetTask","params":{"id":"a"},"params":{"id":"b"}})"},
          std::pair{"/peer/fd12::1/v1/tasks/w1:1", R"({"state":"done","state":"failed"})"},
          std::pair{"/peer/fd12::1/v1/tasks/w1:1", R"({"session":"w1","session":"w2"})"}}) {
        CAPTURE(body);
        const proxy_head head{.method = "POST", .target = path, .content_type = "application/json"};
        const auto judged = judge_head(head, caged, machines);
        REQUIRE(judged);
        const auto made = rewrite_body(*judged, head, body, caged, "laptop");
        REQUIRE_FALSE(made);
        CHECK(made.error().status == 400);
        CHECK(made.error().text.find("stands twice") != std::string::npos);
    }
}

TEST_CASE("machines come from the peers file or the daemon, this one first and each once") {
    const auto peers = parse_peers(
        R"({"machines":[{"name":"laptop","addr":"fd12::1"},{"name":"pi5","addr":"198.19.0.4"}]})");
    REQUIRE(peers.machines.size() == 2);
    CHECK(peers.machines[1].addr == "198.19.0.4");
    CHECK(peers.meshes.empty());
    CHECK(parse_peers(R"({"machines":[{"name":"laptop.home","addr":"fd12::1"}]})").machines[0].name ==
          "laptop");
    for (const char* bad :
         {"", "[]", R"({"machines":[]})", R"({"machines":[{"name":"a"}]})",
          R"({"machines":[{"name":"a","addr":"host"}]})", R"({"machines":[{"name":"a/b","addr":"::1"}]})",
          R"({"machines":[{"name":"a","addr":"::1"},{"name":"a","addr":"::2"}]})"})
        CHECK_THROWS(parse_peers(bad));
    const auto told = parse_status(
        R"({"name":"laptop.home","meshes":[{"label":"home","overlay":"fd12::1"},{"overlay":"fd13::1"}],
            "peers":[{"name":"pi5.home","mesh":"home","overlay":"fd12::7"},{"name":"pi5.work","overlay":"fd13::7"},{"name":"x","overlay":"?"}]})");
    REQUIRE(told.machines.size() == 2);
    CHECK(told.machines[0].name == "laptop");
    CHECK(told.machines[1].addr == "fd12::7");
    REQUIRE(told.meshes.size() == 1); // the other has no name
    CHECK(told.meshes[0].label == "home");
    CHECK(told.meshes[0].own == "fd12::1");
    REQUIRE(told.meshes[0].peers.size() == 1);
    CHECK(told.meshes[0].peers[0].addr == "fd12::7");
    CHECK_THROWS(parse_status("{}"));
}

} // namespace pinfold
