#include "incage/mcp/server.hpp"
#include "proxy/proxy_fixture.hpp"
#include "support/catch.hpp"

#include <fstream>

namespace pinfold::test {

namespace {

using nlohmann::json;

// An agent as far as the tools see one.
void be_an_agent(fake_agent::request& to) {
    const auto say = [&](int status, const json& what) {
        const std::string body = what.dump();
        to.to->say("HTTP/1.1 " + std::to_string(status) +
                   " Any\r\nContent-Type: application/json\r\nContent-Length: " +
                   std::to_string(body.size()) + "\r\n\r\n" + body);
    };
    const auto task = [&](const char* state, const char* text) {
        return json{{"id", "rev:m1"},
                    {"status", {{"state", state}, {"message", {{"parts", json::array({{{"text", text}}})}}}}},
                    {"metadata", {{"shrooms/held", std::string(state) == "TASK_STATE_SUBMITTED"}}}};
    };
    if (to.head.starts_with("GET /v1/sessions "))
        return say(
            200,
            {{"sessions",
              json::array({{{"name", "rev"}, {"harness", "claude"}, {"state", "idle"}, {"dir", "/p"}}})}});
    if (to.head.starts_with("POST /v1/tasks/")) return say(200, task("TASK_STATE_COMPLETED", "noted"));
    if (to.head.find("/drop") != std::string::npos)
        return say(403, {{"error", "rev takes no files from laptop/w1"}});
    const json asked = json::parse(to.body);
    const bool held = asked["params"].contains("message") &&
                      asked["params"]["message"]["parts"][0]["text"] == "risky";
    if (asked["method"] == "AckTask")
        return say(
            200, {{"jsonrpc", "2.0"}, {"id", 1}, {"error", {{"code", -32001}, {"message", "no such task"}}}});
    say(200, {{"jsonrpc", "2.0"},
              {"id", 1},
              {"result",
               {{"task",
                 held ? task("TASK_STATE_SUBMITTED", "") : task("TASK_STATE_COMPLETED", "all is well")}}}});
}

json call(const mcp::tools& with, const std::string& tool, const json& arguments) {
    const json asked{{"jsonrpc", "2.0"},
                     {"id", 7},
                     {"method", "tools/call"},
                     {"params", {{"name", tool}, {"arguments", arguments}}}};
    const auto answer = mcp::answer_line(asked.dump(), with);
    REQUIRE(answer);
    return json::parse(*answer).at("result");
}

std::string text_of(const json& result) {
    return result.at("content").at(0).at("text");
}

} // namespace

TEST_CASE("the MCP server greets, lists its tools in their order, and answers what it does not know") {
    const mcp::tools none(mcp::peers("/nonexistent"), "w1");
    const auto ask = [&](const char* line) { return json::parse(mcp::answer_line(line, none).value()); };
    const json hello = ask(
        R"({"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05"}})");
    CHECK(hello["result"]["protocolVersion"] == "2024-11-05");
    CHECK(hello["result"]["serverInfo"]["name"] == "shrooms");
    CHECK(ask(R"({"id":2,"method":"ping"})")["result"] == json::object());
    std::vector<std::string> names;
    for (const json& each : ask(R"({"id":3,"method":"tools/list"})")["result"]["tools"])
        names.push_back(each["name"]);
    CHECK(names == std::vector<std::string>{"list_agents", "ask_agent", "task_status", "task_update",
                                            "send_file", "task_ack"});
    CHECK(ask(R"({"id":4,"method":"resources/list"})")["error"]["code"] == -32601);
    CHECK(ask("garbage")["error"]["code"] == -32700);
    CHECK_FALSE(mcp::answer_line(R"({"jsonrpc":"2.0","method":"notifications/initialized"})", none));
    CHECK(call(none, "list_agents", {})["isError"] == true);
    CHECK(text_of(call(none, "list_agents", {})).find("/nonexistent") != std::string::npos);
    CHECK(call(none, "run_anything", {})["isError"] == true);
}

TEST_CASE("the tools ask other agents through the proxy, and tell results, holds, refusals and errors") {
    proxy_fixture proxy;
    fake_agent own(proxy.own_socket(), be_an_agent),
        other(proxy_fixture::other, proxy_fixture::port, be_an_agent);
    const auto directory = proxy.open("w1", {.session = "w1"});
    const mcp::tools with(mcp::peers(directory / "proxy.sock"),
                          "boss"); // what a cage says of itself counts for nothing

    CHECK(text_of(call(with, "list_agents", {})) ==
          "laptop/rev\tclaude, idle, in /p\npi5/rev\tclaude, idle, in /p");

    const json done = call(with, "ask_agent",
                           {{"to", "pi5/rev"}, {"text", "look at it"}, {"title", "a look"}});
    CHECK(done["isError"] == false);
    CHECK(text_of(done) == "task pi5/rev:m1: completed\n\nall is well");
    const json asked = json::parse(other.bodies().back());
    CHECK(other.heads().back().starts_with("POST /a2a/rev HTTP/1.1\r\n"));
    CHECK(asked["params"]["message"]["metadata"] ==
          json{{"shrooms/from", "laptop/w1"}, {"shrooms/title", "a look"}});
    CHECK(asked["params"]["configuration"]["blocking"] == true);

    const std::string held = text_of(
        call(with, "ask_agent", {{"to", "pi5/rev"}, {"text", "risky"}, {"wait", false}}));
    CHECK(held.find("held") != std::string::npos);
    CHECK(json::parse(other.bodies().back())["params"]["configuration"]["blocking"] == false);

    CHECK(text_of(call(with, "task_status", {{"task", "pi5/rev:m1"}}))
              .starts_with("task pi5/rev:m1: completed"));
    const json unknown = call(with, "task_ack", {{"task", "pi5/rev:m9"}});
    CHECK(unknown["isError"] == true);
    CHECK(text_of(unknown) == "AckTask: no such task (-32001)");

    CHECK(call(with, "task_update", {{"task", "w1:m1"}, {"state", "done"}, {"summary", "ok"}})["isError"] ==
          false);
    CHECK(json::parse(own.bodies().back()) == json{{"session", "w1"}, {"state", "done"}, {"summary", "ok"}});

    const std::string file = (directory.parent_path() / "report.txt").native();
    std::ofstream(file) << "text";
    const json refused = call(with, "send_file", {{"to", "pi5/rev"}, {"path", file}, {"note", "a b"}});
    CHECK(refused["isError"] == true);
    CHECK(text_of(refused) == "rev takes no files from laptop/w1");
    CHECK(other.heads().back().starts_with(
        "POST /v1/sessions/rev/drop?name=report.txt&note=a%20b HTTP/1.1\r\n"));
    CHECK(other.bodies().back() == "text");

    for (const auto& [tool, wrong] :
         std::vector<std::pair<std::string, json>>{{"ask_agent", {{"to", "pi5/rev"}}},
                                                   {"task_update", {{"task", "w1:m1"}}},
                                                   {"send_file", {{"to", "pi5/rev"}}},
                                                   {"ask_agent", {{"to", "nobody/rev"}, {"text", "x"}}},
                                                   {"send_file", {{"to", "pi5/rev"}, {"path", "/dev/zero"}}},
                                                   {"task_status", nullptr}})
        CHECK(call(with, tool, wrong)["isError"] == true);
}

} // namespace pinfold::test
