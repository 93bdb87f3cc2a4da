// The store: what was kept is there after a kill at any moment, each event once and in order.
#include "agent/store/store.hpp"
#include "support/agent_fixture.hpp"
#include "support/catch.hpp"

using namespace pinfold;
using namespace pinfold::test;

namespace {

session_row named(const std::string& name) {
    return {.name = name, .directory = "/srv/" + name, .harness = "command", .mode = "uncaged"};
}

event_row event_number(std::uint64_t seq, const std::string& text) {
    return {.seq = seq, .time = "2026-01-01T00:00:00Z", .kind = "message", .by = "", .data = text};
}

void append(store& in, session_row& row, const std::string& text) {
    session_change change{.session = row};
    change.session.last_seq = row.last_seq + 1;
    change.events.push_back(event_number(change.session.last_seq, text));
    in.apply(change);
    row = change.session;
}

// A writer that says each number once it is kept; killed in the middle.
[[noreturn]] void write_until_killed(const std::filesystem::path& file, int told) {
    store in(file);
    std::vector<session_row> rows = in.sessions();
    for (;;) {
        append(in, rows.front(), std::string(500, 'x'));
        const std::uint64_t seq = rows.front().last_seq;
        if (::write(told, &seq, sizeof seq) != sizeof seq) ::_exit(1);
    }
}

} // namespace

TEST_CASE("what the store was given is there when it is opened again") {
    const scratch_directory scratch;
    const auto file = scratch.path() / "sessions.db";
    {
        store in(file);
        session_row row = named("heron");
        row.settings = R"({"starred":true})";
        in.add(row, {event_number(1, "a")});
        row.last_seq = 1;
        append(in, row, std::string("b\0c", 3));
        session_change change{.session = row};
        change.messages.push_back({.id = "m-1", .text = "later", .by = "phone", .waiting = true});
        change.messages.push_back({.id = "m-2", .text = "now", .by = "phone", .waiting = false});
        in.apply(change);
        CHECK(change.messages[0].number != 0);
        in.set("machine", "pi5");
    }
    store again(file);
    const std::vector<session_row> rows = again.sessions();
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].settings == R"({"starred":true})");
    CHECK(rows[0].last_seq == 2);
    CHECK(again.events(rows[0].id, 0, 10).size() == 2);
    const std::vector<event_row> last = again.events(rows[0].id, 1, 10);
    REQUIRE(last.size() == 1);
    CHECK(last[0].data == std::string("b\0c", 3));
    CHECK(again.tail_begins(rows[0].id, 1) == 1);
    CHECK(again.tail_begins(rows[0].id, 5) == 0);
    CHECK(again.knows_message(rows[0].id, "m-2"));
    CHECK(!again.knows_message(rows[0].id, "m-3"));
    const std::vector<message_row> waiting = again.waiting(rows[0].id);
    REQUIRE(waiting.size() == 1);
    CHECK(waiting[0].text == "later");
    session_change delivered{.session = rows[0]};
    delivered.delivered.push_back(waiting[0].number);
    again.apply(delivered);
    CHECK(again.waiting(rows[0].id).empty());
    CHECK(again.setting("machine") == std::optional<std::string>("pi5"));
    again.remove(rows[0].id);
    CHECK(again.sessions().empty());
    CHECK(again.events(rows[0].id, 0, 10).empty()); // nothing is left of it
}

TEST_CASE("a change that cannot be kept whole is not kept at all") {
    const scratch_directory scratch;
    store in(scratch.path() / "sessions.db");
    session_row row = named("heron");
    in.add(row, {});
    append(in, row, "one");
    session_change change{.session = row};
    change.session.name = "egret";
    change.events.push_back(event_number(2, "two"));
    change.events.push_back(event_number(1, "again one")); // there is a number 1 already
    CHECK_THROWS_AS(in.apply(change), store_failure);
    CHECK(in.sessions().front().name == "heron");
    CHECK(in.events(row.id, 0, 10).size() == 1);
    change.events.pop_back();
    in.apply(change); // its twin
    CHECK(in.sessions().front().name == "egret");
    CHECK(in.events(row.id, 0, 10).size() == 2);
}

TEST_CASE("an event that was told of survives kill -9 at any moment, once and in order") {
    const scratch_directory scratch;
    const auto file = scratch.path() / "sessions.db";
    {
        store in(file);
        session_row row = named("heron");
        in.add(row, {});
    }
    std::uint64_t last_told = 0;
    for (int round = 0; round < 8; ++round) {
        std::array<int, 2> pipe{};
        REQUIRE(::pipe(pipe.data()) == 0);
        const pid_t writer = ::fork();
        if (writer == 0) write_until_killed(file, pipe[1]);
        ::close(pipe[1]);
        std::uint64_t seq = 0;
        const std::uint64_t enough = last_told + 20 + static_cast<std::uint64_t>(round) * 7;
        while (seq < enough && ::read(pipe[0], &seq, sizeof seq) == sizeof seq) {
        }
        ::kill(writer, SIGKILL);
        while (::read(pipe[0], &seq, sizeof seq) == sizeof seq) {
        }
        ::waitpid(writer, nullptr, 0);
        ::close(pipe[0]);
        CHECK(seq >= enough);
        last_told = seq;
        store in(file);
        const session_row row = in.sessions().front();
        const std::vector<event_row> events = in.events(row.id, 0, 100'000);
        CHECK(row.last_seq >= last_told);
        CHECK(events.size() == row.last_seq); // none twice, none missing, none that the row does not know of
        bool in_order = true;
        for (std::size_t i = 0; i < events.size(); ++i) in_order = in_order && events[i].seq == i + 1;
        CHECK(in_order);
        last_told = row.last_seq;
    }
}

TEST_CASE("a store of a newer version, or no store at all, is refused and left as it is") {
    const scratch_directory scratch;
    const auto file = scratch.path() / "sessions.db";
    {
        store in(file);
        session_row row = named("heron");
        in.add(row, {});
        CHECK_THROWS_WITH(store(file), Catch::Matchers::ContainsSubstring("another agent uses it"));
    }
    database(file).run("PRAGMA user_version = 99");
    CHECK_THROWS_WITH(store(file), Catch::Matchers::ContainsSubstring("newer pinfold"));
    database(file).run(fmt::format("PRAGMA user_version = {}", store::version));
    CHECK(store(file).sessions().size() == 1); // its twin
    const auto garbage = scratch.path() / "garbage.db";
    std::ofstream(garbage) << std::string(5000, 'g');
    CHECK_THROWS_AS(store(garbage), store_failure);
}
