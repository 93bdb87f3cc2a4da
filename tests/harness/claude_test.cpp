// Real Claude Code in real cages: whole turns, the same conversation across moves, and nothing of the owner's inside.
#include "harness/harness_machine.hpp"
#include "support/catch.hpp"

#include <iterator>
#include <string_view>

using namespace pinfold;
using namespace pinfold::test;
using Catch::Matchers::ContainsSubstring;

namespace {

const json caged{{"cage", json::object()}};
const json sealed{{"cage", {{"sealed", true}}}};

bool holds(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

// The secret as it stands, in base64 (at each of the three offsets) and in a URL's form.
std::vector<std::string> forms_of(const std::string& secret) {
    constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::vector<std::string> forms{secret};
    for (std::size_t offset = 0; offset < 3; ++offset) {
        std::string encoded;
        for (std::size_t i = offset; i + 3 <= secret.size(); i += 3) {
            const auto at = [&](std::size_t k) {
                return static_cast<unsigned>(static_cast<unsigned char>(secret[i + k]));
            };
            const unsigned bits = at(0) << 16 | at(1) << 8 | at(2);
            for (const unsigned shift : {18U, 12U, 6U, 0U}) encoded += digits[bits >> shift & 63U];
        }
        forms.push_back(encoded);
    }
    return forms;
}

} // namespace

TEST_CASE(
    "a caged turn: the tool writes the project, sees nothing of the owner's, and the key is put on outside") {
    harness_machine with;
    with.write(with.home() / ".ssh/id_ed25519", "OWNERS KEY");
    with.write(with.home() / ".claude/settings.json", R"({"env":{"FROM_SETTINGS":"yes"}})");
    with.write(with.home() / ".claude/history.jsonl", "EVERY PROMPT");
    with.write(with.home() / ".claude/.credentials.json", "LOGIN");
    with.write(with.home() / ".claude/projects/-other/x.jsonl", "OTHER CONVERSATION");
    json body = caged;
    body["auto_approve"] = true;
    REQUIRE(with.create(body).status == 201);
    with.write(with.home() / ".claude/later.txt", "ADDED LATER");

    const std::string seen = with.turn(
        "TOOL id -u; ls -A ~ ~/.claude ~/.claude/projects; cat ~/.ssh/id_ed25519; env; "
        "echo made > made.txt; echo $FROM_SETTINGS");
    INFO(seen << "\n" << with.log());
    CHECK(holds(seen, "the tool said: 0\n")); // root inside
    for (const char* secret : {"OWNERS KEY", "EVERY PROMPT", "LOGIN", "history.jsonl", ".credentials.json",
                               "-other", "later.txt", "SOME_TOKEN", harness_machine::key})
        CHECK(!holds(seen, secret));
    CHECK(holds(seen, "settings.json"));
    CHECK(holds(seen, "ANTHROPIC_BASE_URL=http://192.0.0.1"));
    struct stat made{};
    REQUIRE(::stat((with.project() / "made.txt").c_str(), &made) == 0);
    CHECK(made.st_uid == owner_id);

    bool with_key = false;
    for (const json& each : with.requests()) {
        if (!holds(each["path"], "/v1/messages")) continue;
        CHECK(each["fields"].value("x-api-key", "") == harness_machine::key);
        CHECK(!each["fields"].contains("authorization")); // what the cage sent is gone
        with_key = true;
    }
    CHECK(with_key);
    const json usage = with.api().info().value("usage", json::object());
    CHECK(usage.value("requests", 0) >= 2);
    CHECK(usage.value("tokens_out", 0) >= 14);

    // The conversation is the owner's real file, and goes on outside and inside again.
    const std::string folder = (with.home() / ".claude/projects").native();
    std::size_t transcripts = 0;
    for (const auto& each : std::filesystem::recursive_directory_iterator(folder))
        transcripts += each.path().extension() == ".jsonl" && !holds(each.path().native(), "-other") ? 1 : 0;
    CHECK(transcripts == 1);
    REQUIRE(with.api().post("/v1/sessions/heron/cage", {{"cage", {{"github", true}}}}).status == 200);
    const std::string after = with.turn("SAY hello again");
    INFO(after);
    CHECK(holds(after, "you said: hello again"));
    CHECK(!holds(after, "(0 answers before)")); // it remembers
    CHECK(!std::filesystem::exists(with.home() / ".claude/projects/-planted"));
}

TEST_CASE("a permission is asked in a cage, and a denial reaches the tool") {
    harness_machine with;
    REQUIRE(with.create(caged).status == 201);
    const std::string denied = with.turn("TOOL touch denied.txt", false);
    INFO(denied << with.log());
    CHECK(holds(denied, "not allowed"));
    CHECK(!std::filesystem::exists(with.project() / "denied.txt"));
    const std::string allowed = with.turn("TOOL touch allowed.txt", true);
    INFO(allowed);
    CHECK(std::filesystem::exists(with.project() / "allowed.txt"));
}

TEST_CASE("a sealed turn: nothing local, a home of its own, and the sealed token put on outside") {
    harness_machine with;
    with.write(with.home() / ".claude/settings.json", R"({"env":{"FROM_SETTINGS":"yes"}})");
    json body = sealed;
    body["auto_approve"] = true;
    const answered made = with.create(body);
    INFO(made.text);
    REQUIRE(made.status == 201);
    const arrived before = with.whole().at_target();
    const std::string seen = with.turn(
        "TOOL echo $HOME; ls -A ~/.claude; echo S=$FROM_SETTINGS; ls /home; "
        "curl -s -m 5 http://192.168.1.10:9000/ || echo REFUSED; "
        "curl -s -m 9 http://93.184.216.34/; echo result > /outbox/r.txt; env");
    INFO(seen << "\n" << with.log());
    CHECK(holds(seen, "the tool said: /root\n"));
    CHECK(holds(seen, "S=\n"));
    CHECK(!holds(seen, "settings.json"));
    CHECK(holds(seen, "REFUSED"));
    CHECK(with.whole().at_target() == before);
    CHECK(holds(seen, "hello from the internet")); // its twin
    CHECK(!holds(seen, harness_machine::token));
    CHECK(std::filesystem::exists(with.home() / "shrooms-outbox/heron/r.txt"));
    CHECK(std::filesystem::exists(with.home() / "shrooms-outbox/heron/README-UNTRUSTED.txt"));
    bool with_token = false;
    for (const json& each : with.requests()) {
        if (!holds(each["path"], "/v1/messages")) continue;
        CHECK(each["fields"].value("authorization", "") == std::string("Bearer ") + harness_machine::token);
        CHECK_THAT(each["fields"].value("anthropic-beta", ""), ContainsSubstring("oauth-2025-04-20"));
        with_token = true;
    }
    CHECK(with_token);
}

TEST_CASE("a conversation goes from outside into a sealed cage and out again, that one and no other") {
    harness_machine with;
    with.write(with.home() / ".claude/projects/-other/x.jsonl", "OTHER CONVERSATION");
    REQUIRE(with.create(caged).status == 201);
    const std::string first = with.turn("SAY the word is kestrel");
    INFO(first << with.log());
    REQUIRE(holds(first, "you said: the word is kestrel (0 answers before)"));
    REQUIRE(with.api().post("/v1/sessions/heron/cage", sealed).status == 200);
    const std::string inside = with.turn("TOOL find /root/.claude/projects -name '*.jsonl' | wc -l", true);
    INFO(inside << with.log());
    CHECK(holds(inside, "the tool said: 1"));
    const std::string second = with.turn("SAY inside");
    CHECK(holds(second, "you said: inside"));
    CHECK(!holds(second, "(0 answers before)"));
    REQUIRE(with.api().post("/v1/sessions/heron/cage", caged).status == 200);
    const std::string third = with.turn("SAY outside again");
    INFO(third << with.log());
    CHECK(holds(third, "you said: outside again"));
    // Claude Code writes its transcript a little behind what it says.
    const auto told = [&] {
        std::string all;
        for (const auto& each :
             std::filesystem::recursive_directory_iterator(with.home() / ".claude/projects")) {
            if (each.path().extension() != ".jsonl") continue;
            std::ifstream from(each.path());
            all += std::string{std::istreambuf_iterator<char>(from), {}};
        }
        return all;
    };
    for (const char* each : {"kestrel", "inside", "outside again"}) {
        INFO(each);
        CHECK(eventually([&] { return holds(told(), each); }));
    }
}

namespace {

bool is_well(const harness_machine& with) {
    return eventually([&] { return !with.api().info().contains("provider"); });
}

} // namespace

TEST_CASE(
    "a provider that refuses the credential is told of at once, and the session goes on when it is taken") {
    harness_machine with;
    REQUIRE(with.create(caged).status == 201);
    CHECK(holds(with.turn("SAY hello"), "you said: hello")); // nothing to tell
    CHECK(!with.api().info().contains("provider"));
    const std::string refused = with.turn("FAIL 401 always");
    INFO(refused << "\n" << with.log());
    CHECK(refused.starts_with("[provider refused 401]"));
    CHECK(refused.ends_with("FAILED"));
    const json told = with.api().info().value("provider", json::object());
    CHECK(told.value("what", "") == "refused");
    CHECK(told.value("status", 0) == 401);
    CHECK(told.value("times", 0) == 4); // Claude Code's own three tries behind the first
    CHECK_THAT(told.value("message", ""), ContainsSubstring("refuses the credential"));
    CHECK(holds(with.turn("SAY and now"), "you said: and now"));
    CHECK(is_well(with));
}

TEST_CASE("a provider that has no room is told of, and its answer comes when it has") {
    harness_machine with;
    REQUIRE(with.create(caged).status == 201);
    for (const char* status : {"429", "529", "500"}) {
        const std::string seen = with.turn(fmt::format("FAIL {} 2", status));
        INFO(seen << "\n" << with.log());
        CHECK(seen.starts_with(fmt::format("[provider refused {}]", status)));
        CHECK(holds(seen, fmt::format("you said: FAIL {} 2", status)));
        CHECK(!holds(seen, "FAILED"));
        CHECK(is_well(with));
    }
    const std::string events = with.api().get("/v1/sessions/heron/history?limit=50").text;
    CHECK(holds(events, "you said: FAIL 529 2"));
}

TEST_CASE("a provider that hangs up in the middle is told of, and the turn goes on") {
    harness_machine with;
    REQUIRE(with.create(caged).status == 201);
    const std::string seen = with.turn("DROP it");
    INFO(seen << "\n" << with.log());
    CHECK(seen.starts_with("[provider broke-off 200]"));
    CHECK(holds(seen, "you said: DROP it"));
    CHECK(is_well(with));
    CHECK(holds(with.turn("SAY and now"), "you said: and now"));
}

TEST_CASE("a provider that says nothing more is told of long before it is given up, and the turn goes on") {
    harness_machine with({"--model-silence", "1"});
    REQUIRE(with.create(caged).status == 201);
    const std::string seen = with.turn("STALL it");
    INFO(seen << "\n" << with.log());
    CHECK(seen.starts_with("[provider silent 0]"));
    CHECK(holds(seen, "[provider broke-off 200]"));
    CHECK(holds(seen, "you said: STALL it"));
    CHECK(is_well(with));
    CHECK(holds(with.turn("SAY and now"), "you said: and now"));
}

TEST_CASE("a provider that is not there is told of, and the session goes on when it is") {
    harness_machine with;
    REQUIRE(with.create(caged).status == 201);
    with.end_provider();
    const std::string seen = with.turn("SAY anybody");
    INFO(seen << "\n" << with.log());
    CHECK(seen.starts_with("[provider unreachable 0]"));
    CHECK(seen.ends_with("FAILED"));
    with.start_provider();
    CHECK(holds(with.turn("SAY and now"), "you said: and now"));
    CHECK(is_well(with));
}

TEST_CASE("the credential is nowhere that a cage, a client or a reader of the disk can look") {
    harness_machine with;
    json body = caged;
    body["auto_approve"] = true;
    REQUIRE(with.create(body).status == 201);
    const std::string script =
        "for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/environ; tr '\\0' ' ' < $p/cmdline; done "
        "2>/dev/null; cat /proc/*/maps 2>/dev/null | wc -l; grep -rsl " +
        std::string("never-in-a-cage") +
        " / --exclude-dir=proc --exclude-dir=sys 2>/dev/null; "
        "curl -s http://192.0.0.1/v1/models; true";
    const std::string seen = with.turn("TOOL " + script);
    INFO(seen.substr(0, 4000));
    REQUIRE(holds(seen, "the tool said"));
    std::string store;
    for (const auto& each : std::filesystem::directory_iterator(with.state())) {
        if (!each.is_regular_file() || each.path().filename() == "sealed-claude-token") continue;
        std::ifstream from(each.path(), std::ios::binary);
        store += std::string{std::istreambuf_iterator<char>(from), {}};
    }
    CHECK(holds(store, "the tool said")); // the search does find what is there
    const std::string events = with.api().get("/v1/sessions/heron/history").text;
    for (const std::string& form : forms_of(harness_machine::key)) {
        // The command itself names a part of it, so the whole is sought.
        CHECK(!holds(seen, form));
        CHECK(!holds(store, form));
        CHECK(!holds(events, form));
        CHECK(!holds(with.log(), form));
    }
}
