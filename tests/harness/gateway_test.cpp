// The model's address inside a cage: whose it is, what passes, what is stripped, and what is refused.
#include "harness/harness_machine.hpp"
#include "support/catch.hpp"

using namespace pinfold;
using namespace pinfold::test;

namespace {

// A session that runs a shell line in its cage and answers with what it printed.
json shell(const std::string& script, const json& cage = json::object()) {
    return {{"harness", "command"}, {"command", {"sh", "-c", script}}, {"cage", cage}};
}

std::string printed(const harness_machine& with) {
    event_reader events = with.api().events("?after=" + with.api().info()["last_seq"].dump());
    const answered sent = with.api().send("go");
    if (sent.status != 202) return sent.text;
    std::string all;
    for (json event = events.next(); !event.is_null(); event = events.next()) {
        const json data = event.value("data", json::object());
        if (event["kind"] == "stopped") return all + "[" + data.value("reason", "") + "]";
        if (event["kind"] == "claude" && data.value("type", "") == "assistant")
            all += data["message"]["content"][0].value("text", "") + "\n";
    }
    return all + "[cut]";
}

bool holds(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("the gateway puts the key on what a cage sends, and takes off whatever the cage put there") {
    harness_machine with;
    REQUIRE(
        with.create(shell("read x; curl -s -m 20 http://192.0.0.1/v1/messages -H 'x-api-key: forged' -H "
                          "'Authorization: Bearer forged' -H 'Cookie: a=b' -H 'X-Forwarded-For: 1.2.3.4' -H "
                          "'anthropic-version: 2023-06-01' -H 'content-type: application/json' -d "
                          "'{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"SAY hi\"}]}'"))
            .status == 201);
    const std::string seen = printed(with);
    INFO(seen << with.log());
    CHECK(holds(seen, "you said: hi (0 answers before)"));
    REQUIRE(with.requests().size() == 1);
    const json fields = with.requests().front()["fields"];
    CHECK(fields.value("x-api-key", "") == harness_machine::key);
    CHECK(fields.value("anthropic-version", "") == "2023-06-01");
    for (const char* gone : {"authorization", "cookie", "x-forwarded-for"}) CHECK(!fields.contains(gone));
    CHECK(with.api().info()["usage"] == json{{"requests", 1}, {"tokens_in", 100}, {"tokens_out", 7}});
}

TEST_CASE(
    "bodies of 100 MB pass, larger ones and strange paths do not, and no redirect takes the key elsewhere") {
    harness_machine with;
    REQUIRE(
        with.create(
                shell("read x; head -c 100000000 /dev/zero > b; curl -s -m 60 -H Expect: --data-binary @b "
                      "http://192.0.0.1/v1/messages?large; echo; "
                      "for p in /../x //x /%2e%2e/x /provider/none/v1/models; do curl -s -o /dev/null -w "
                      "'%{http_code} ' --path-as-is http://192.0.0.1$p; done; echo; "
                      "curl -s -L -o /dev/null -w 'redirect %{http_code} %{num_redirects}\\n' "
                      "http://192.0.0.1/v1/models?redirect"))
            .status == 201);
    const std::string seen = printed(with);
    INFO(seen << with.log());
    CHECK(holds(seen, R"({"size": 100000000})"));
    CHECK(holds(seen, "400 400 400 403 \n"));
    CHECK(holds(seen, "redirect 302 0"));
    for (const json& each : with.requests()) CHECK(each["path"] != "/elsewhere");
}

TEST_CASE("a credential that others can read is not used, and a session without one is told how to get it") {
    harness_machine with;
    with.write(with.home() / "key", harness_machine::key, 0644);
    REQUIRE(with.create(shell("read x; curl -s -m 20 http://192.0.0.1/v1/models")).status == 201);
    const std::string open = printed(with);
    INFO(open << with.log());
    CHECK(holds(open, "chmod 600"));
    CHECK(with.requests().empty());
    with.write(with.home() / "key", harness_machine::key, 0600); // its twin
    CHECK(holds(printed(with), "has_more"));
    std::filesystem::remove(with.home() / "key");
    CHECK(holds(printed(with), "--model-key"));
    CHECK(with.requests().size() == 1);
}

TEST_CASE("a cage that is no session's has no model, and a sealed one has the sealed token's") {
    harness_machine with;
    const cli_result run = with.whole().run(
        {"run", "--caged", "--", "curl", "-s", "-m", "20", "http://192.0.0.1/v1/models"});
    INFO(run.out << run.err << with.log());
    CHECK(holds(run.out, "only sessions have a model"));
    CHECK(with.requests().empty());
    REQUIRE(
        with.create(shell("read x; curl -s -m 20 http://192.0.0.1/v1/models", {{"sealed", true}})).status ==
        201);
    const std::string seen = printed(with);
    INFO(seen << with.log());
    CHECK(holds(seen, "has_more"));
    REQUIRE(with.requests().size() == 1);
    CHECK(with.requests()[0]["fields"].value("authorization", "") ==
          std::string("Bearer ") + harness_machine::token);
}

TEST_CASE(
    "what a session installs stays in its cage until the session is deleted, and its limits can be changed") {
    harness_machine with;
    REQUIRE(
        with.create(shell("read x; cat /opt/installed 2>/dev/null || echo fresh; echo here > /opt/installed"))
            .status == 201);
    CHECK(holds(printed(with), "fresh"));
    CHECK(holds(printed(with), "here"));
    const answered limited = with.api().post("/v1/sessions/heron/cage/limits",
                                             {{"memory", "512m"}, {"cpus", "1"}});
    CHECK(limited.status == 200);
    CHECK(limited.body["cage"]["memory"] == "512m");
    CHECK(with.api().post("/v1/sessions/heron/cage/limits", {{"memory", "much"}}).status == 400);
    CHECK(holds(printed(with), "here")); // not made again
    CHECK(with.api().remove("/v1/sessions/heron").status == 204);
    CHECK(eventually([&] { return with.api().get("/v1/cages").body["cages"].empty(); }));
    CHECK(!std::filesystem::exists(with.state() / "uploads/heron"));
}
