// Many clients: who only holds a connection open keeps nobody out, and the list is always what the sessions are.
#include "session_fixture.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <sys/resource.h>
#include <vector>

using namespace pinfold;
using namespace pinfold::test;

namespace {

std::size_t open_files(pid_t pid) {
    const auto folder = std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd");
    return static_cast<std::size_t>(std::distance(begin(folder), end(folder)));
}

void allow_files(rlim_t count) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < count) skip("this machine lets nobody have so many files open");
    limit.rlim_cur = std::max(limit.rlim_cur, count);
    check(::setrlimit(RLIMIT_NOFILE, &limit), "raise the limit of open files");
}

json in_list(const session_fixture& with, const std::string& name) {
    for (const json& each : with.get("/v1/sessions").body["sessions"]) {
        if (each["name"] == name) return each;
    }
    return nullptr;
}

} // namespace

TEST_CASE("five thousand idle connections keep neither the owner nor a reader of events out") {
    allow_files(6000);
    session_fixture with;
    REQUIRE(with.create({{"harness", "command"}, {"command", {"cat"}}}).status == 201);
    event_reader events = with.events();
    const unique_fd busy = connect_unix(with.agent.api()); // in the middle of a request
    send_text(busy, "GET /v1/version HTTP/1.1\r\nConnection: close\r\n");
    std::vector<unique_fd> crowd;
    for (int i = 0; i < 5000; ++i) {
        crowd.push_back(connect_unix(with.agent.api()));
        REQUIRE(crowd.back());
    }
    CHECK(with.send("hello").status == 202); // the owner's next connection
    const json heard = events.wait_for_claude("assistant");
    CHECK(!heard.is_null()); // who was there before is served on
    send_text(busy, "\r\n");
    CHECK(receive_all(busy, std::chrono::seconds(30)).starts_with("HTTP/1.1 200"));
    CHECK(eventually([&] { return open_files(with.agent.pid()) < 400; }));
    CHECK(crowd.size() == 5000);
    // Who was idle longest is gone; who came last is served.
    CHECK(receive_all(crowd.front(), std::chrono::seconds(30)).empty());
    send_text(crowd.back(), "GET /v1/version HTTP/1.1\r\nConnection: close\r\n\r\n");
    CHECK(receive_all(crowd.back(), std::chrono::seconds(30)).starts_with("HTTP/1.1 200"));
}

TEST_CASE("the list of sessions is never older than its sessions") {
    session_fixture with;
    REQUIRE(with.create({{"auto_approve", false}}).status == 201);
    const auto agrees = [&] {
        const json listed = in_list(with, "heron"), one = with.info();
        INFO(listed.dump() << "\n" << one.dump());
        return listed == one;
    };
    CHECK(agrees());
    CHECK(in_list(with, "heron")["starred"].is_null());
    REQUIRE(with.post("/v1/sessions/heron/settings", {{"starred", true}}).status == 200);
    CHECK(in_list(with, "heron")["starred"] == true);
    event_reader events = with.events();
    REQUIRE(with.send("run ls").status == 202);
    REQUIRE(!events.wait_for_claude("control_request").is_null());
    REQUIRE(with.is("waiting"));
    CHECK(in_list(with, "heron")["state"] == "waiting");
    CHECK(in_list(with, "heron")["prompts"].size() == 1);
    CHECK(agrees());
    const std::string prompt = with.info()["prompts"][0]["id"];
    REQUIRE(with.post("/v1/sessions/heron/prompts/" + prompt, {{"allow", true}}).status == 204);
    REQUIRE(!events.wait_for_claude("result").is_null());
    REQUIRE(with.is("idle"));
    CHECK(in_list(with, "heron")["state"] == "idle");
    CHECK(in_list(with, "heron")["running"] == true);
    CHECK(agrees());
    REQUIRE(with.post("/v1/sessions/heron/rename", {{"name", "egret"}}).status == 200);
    CHECK(in_list(with, "heron").is_null());
    CHECK(in_list(with, "egret")["name"] == "egret");
    REQUIRE(with.remove("/v1/sessions/egret").status == 204);
    CHECK(with.get("/v1/sessions").body["sessions"].empty());
}
