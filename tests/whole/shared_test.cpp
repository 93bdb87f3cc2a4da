// The folder at /shared: between the cages of sessions on the same meshes, and in no other cage.
#include "sessions/session_fixture.hpp"
#include "support/catch.hpp"
#include "whole/whole_machine.hpp"

#include <fstream>
#include <tuple>

namespace pinfold::test {
namespace {

namespace fs = std::filesystem;

class shared_machine {
public:
    shared_machine() {
        const fs::path state = machine_.home() / ".local/state/pinfold";
        fs::create_directories(state);
        std::ofstream(state / "peers.json")
            << R"({"machines": [{"name": "laptop", "addr": "fd12::1", "mesh": "home"},
            {"name": "laptop", "addr": "fd13::1", "mesh": "work"}]})";
        for (const char* each : {".local", ".local/state", ".local/state/pinfold"})
            check(::chown((machine_.home() / each).c_str(), owner_id, owner_id), "chown {}", each);
        REQUIRE(machine_.run({"ls"}).status == 0);
        api_.emplace(machine_.home() / "run/pinfold/api.sock");
    }

    [[nodiscard]] const api_client& api() const { return *api_; }
    void make(const std::string& name, const json& cage) const {
        const answered made = api().post("/v1/sessions", {{"name", name},
                                                          {"dir", machine_.project().native()},
                                                          {"harness", "command"},
                                                          {"command", {"/bin/sh", "-s"}},
                                                          {"cage", cage}});
        CAPTURE(made.text);
        REQUIRE(made.status == 201);
    }
    // What this shell script says that runs as the session.
    [[nodiscard]] std::string said(const std::string& session, const std::string& script) const {
        const json before = api().get("/v1/sessions/" + session).body;
        event_reader events(machine_.home() / "run/pinfold/api.sock",
                            "/v1/sessions/" + session + "/events?after=" + before["last_seq"].dump());
        REQUIRE(api().post("/v1/sessions/" + session + "/messages", {{"text", script}}).status == 202);
        const json answer = events.wait_for_claude("assistant");
        REQUIRE_FALSE(answer.is_null());
        return answer["data"]["message"]["content"][0]["text"];
    }
    [[nodiscard]] fs::path folder(const std::string& session) const {
        const json cage = api().get("/v1/sessions/" + session).body["cage"];
        return fs::path(api().get("/v1/harnesses").body["cage"]["shared_root"].get<std::string>()) /
               cage["shared"].get<std::string>();
    }

private:
    whole_machine machine_;
    std::optional<api_client> api_;
};

} // namespace

TEST_CASE("sessions on the same meshes share a folder, those on others have another, and the rest none") {
    const shared_machine with;
    with.make("writer", {{"shared", true}});
    with.make("reader", {{"shared", true}});
    with.make("none", json::object());
    CHECK(with.said("writer", "echo a clone >$SHROOMS_SHARED/note; echo $(id -u) $(cat /shared/note)") ==
          "0 a clone");
    CHECK(with.said("reader", "echo more >>/shared/note; echo $(cat /shared/note)") == "a clone more");
    CHECK(
        with.said("none",
                  "echo \"$SHROOMS_SHARED|$(cat /shared/note 2>/dev/null)|$(ls -A /shared 2>/dev/null)\"") ==
        "||");
    struct stat seen{};
    REQUIRE(::stat((with.folder("writer") / "note").c_str(), &seen) == 0);
    CHECK(seen.st_uid == owner_id); // outside it is the owner's

    // On other meshes it has another folder from its next start on, and finds its own again when it comes back.
    const auto meshes = [&](json to) {
        return with.api().post("/v1/sessions/reader/settings", {{"meshes", std::move(to)}}).status;
    };
    const fs::path all = with.folder("reader");
    REQUIRE(meshes({"work"}) == 200);
    CHECK(with.folder("reader") != all);
    CHECK(with.said("reader", "cat /shared/note 2>/dev/null || echo nothing; echo own >/shared/note") ==
          "nothing");
    CHECK(with.said("writer", "wc -l </shared/note") == "2");
    REQUIRE(meshes(json::array()) == 200);
    CHECK(with.said("reader", "wc -l </shared/note") == "2");
}

} // namespace pinfold::test
