#include "agent/store/store.hpp"

namespace pinfold {

namespace {

// One entry for each version: what brings the one before to it. Entries are added, never changed.
constexpr const char* migrations[] = {
    R"(CREATE TABLE sessions (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, directory TEXT NOT NULL, harness TEXT NOT NULL,
        conversation TEXT NOT NULL, mode TEXT NOT NULL, cage TEXT NOT NULL, options TEXT NOT NULL,
        settings TEXT NOT NULL, running INTEGER NOT NULL, last_seq INTEGER NOT NULL, last_time TEXT NOT NULL, preview TEXT NOT NULL,
        model TEXT NOT NULL, turns INTEGER NOT NULL, context_used INTEGER NOT NULL,
        context_window INTEGER NOT NULL, tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL,
        requests INTEGER NOT NULL);
    CREATE TABLE events (
        session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE, seq INTEGER NOT NULL,
        time TEXT NOT NULL, kind TEXT NOT NULL, by TEXT NOT NULL, data TEXT NOT NULL,
        PRIMARY KEY (session, seq)) WITHOUT ROWID;
    CREATE TABLE messages (
        number INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
        id TEXT NOT NULL, text TEXT NOT NULL, by TEXT NOT NULL, waiting INTEGER NOT NULL);
    CREATE UNIQUE INDEX message_ids ON messages (session, id) WHERE id <> '';
    CREATE INDEX waiting_messages ON messages (session, number) WHERE waiting = 1;
    CREATE INDEX session_messages ON messages (session);
    CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;)",
};
static_assert(std::size(migrations) == store::version);

constexpr const char* columns = "name, directory, harness, conversation, mode, cage, options, settings, "
                                "running, last_seq, last_time, preview, "
                                "model, turns, context_used, context_window, tokens_in, tokens_out, requests";

std::int64_t signed_of(std::uint64_t value) {
    return static_cast<std::int64_t>(value);
}

void bind_row(statement& to, const session_row& row) {
    for (const std::string* each : {&row.name, &row.directory, &row.harness, &row.conversation, &row.mode,
                                    &row.cage, &row.options, &row.settings})
        to.bind(*each);
    to.bind(row.running ? 1 : 0)
        .bind(signed_of(row.last_seq))
        .bind(row.last_time)
        .bind(row.preview)
        .bind(row.model);
    for (const std::uint64_t each :
         {row.turns, row.context_used, row.context_window, row.tokens_in, row.tokens_out, row.requests})
        to.bind(signed_of(each));
}

session_row read_row(const statement& from) {
    session_row row;
    row.id = from.number(0);
    int column = 0;
    for (std::string* each : {&row.name, &row.directory, &row.harness, &row.conversation, &row.mode,
                              &row.cage, &row.options, &row.settings})
        *each = from.text(++column);
    row.running = from.number(++column) != 0;
    row.last_seq = static_cast<std::uint64_t>(from.number(++column));
    for (std::string* each : {&row.last_time, &row.preview, &row.model}) *each = from.text(++column);
    for (std::uint64_t* each :
         {&row.turns, &row.context_used, &row.context_window, &row.tokens_in, &row.tokens_out, &row.requests})
        *each = static_cast<std::uint64_t>(from.number(++column));
    return row;
}

event_row read_event(const statement& from) {
    return {.seq = static_cast<std::uint64_t>(from.number(0)),
            .time = from.text(1),
            .kind = from.text(2),
            .by = from.text(3),
            .data = from.text(4)};
}

} // namespace

store::migrated::migrated(database& in) {
    std::int64_t found = 0;
    {
        statement ask(in, "PRAGMA user_version");
        if (ask.next()) found = ask.number(0);
    }
    if (found > version)
        throw store_failure(
            fmt::format("{} was written by a newer pinfold (version {} of its tables, this one "
                        "knows {}); install that one again",
                        in.file().native(), found, version));
    for (std::int64_t next = found; next < version; ++next) {
        transaction all(in);
        in.run(migrations[next]);
        in.run(fmt::format("PRAGMA user_version = {}", next + 1));
        all.commit();
    }
}

store::store(const std::filesystem::path& file)
    : in_(file),
      migrated_(in_),
      list_(in_, fmt::format("SELECT id, {} FROM sessions ORDER BY name", columns)),
      insert_(in_, fmt::format("INSERT INTO sessions ({}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                               columns)),
      update_(in_,
              fmt::format("UPDATE sessions SET ({}) = (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) WHERE id = ?",
                          columns)),
      delete_(in_, "DELETE FROM sessions WHERE id = ?"),
      event_(in_, "INSERT INTO events (session, seq, time, kind, by, data) VALUES (?,?,?,?,?,?)"),
      after_(in_, "SELECT seq, time, kind, by, data FROM events WHERE session = ? AND seq > ? ORDER BY seq "
                  "LIMIT ?"),
      said_(in_, "SELECT seq, time, kind, by, data FROM events WHERE session = ? AND seq < ? AND kind IN "
                 "('message', 'claude') ORDER BY seq DESC LIMIT ?"),
      tail_(in_, "SELECT seq FROM events WHERE session = ? ORDER BY seq DESC LIMIT 1 OFFSET ?"),
      message_(in_, "INSERT INTO messages (session, id, text, by, waiting) VALUES (?,?,?,?,?)"),
      done_(in_, "UPDATE messages SET waiting = 0, text = '' WHERE number = ?"),
      known_(in_, "SELECT 1 FROM messages WHERE session = ? AND id = ?"),
      wait_(in_,
            "SELECT number, id, text, by FROM messages WHERE session = ? AND waiting = 1 ORDER BY number"),
      get_(in_, "SELECT value FROM settings WHERE key = ?"),
      put_(in_, "INSERT INTO settings (key, value) VALUES (?,?) ON CONFLICT (key) DO UPDATE SET value = "
                "excluded.value") {}

std::vector<session_row> store::sessions() {
    std::vector<session_row> rows;
    while (list_.next()) rows.push_back(read_row(list_));
    return rows;
}

void store::write_events(std::int64_t session, const std::vector<event_row>& events) {
    for (const event_row& each : events)
        event_.bind(session)
            .bind(signed_of(each.seq))
            .bind(each.time)
            .bind(each.kind)
            .bind(each.by)
            .bind(each.data)
            .run();
}

void store::write_row(const session_row& row) {
    bind_row(update_, row);
    update_.bind(row.id).run();
}

void store::add(session_row& row, const std::vector<event_row>& first_events) {
    transaction all(in_);
    bind_row(insert_, row);
    insert_.run();
    const std::int64_t id = in_.last_id();
    write_events(id, first_events);
    all.commit();
    row.id = id;
}

void store::apply(session_change& change) {
    transaction all(in_);
    write_row(change.session);
    write_events(change.session.id, change.events);
    for (message_row& each : change.messages) {
        // Of what was delivered the event has the text; the id alone is needed, to know a second sending.
        message_.bind(change.session.id)
            .bind(each.id)
            .bind(each.waiting ? std::string_view(each.text) : std::string_view())
            .bind(each.by)
            .bind(each.waiting ? 1 : 0)
            .run();
        each.number = in_.last_id();
    }
    for (const std::int64_t number : change.delivered) done_.bind(number).run();
    all.commit();
}

void store::remove(std::int64_t session) {
    delete_.bind(session).run();
}

std::vector<event_row> store::events(std::int64_t session, std::uint64_t after, std::size_t limit) {
    std::vector<event_row> rows;
    after_.bind(session).bind(signed_of(after)).bind(static_cast<std::int64_t>(limit));
    while (after_.next()) rows.push_back(read_event(after_));
    return rows;
}

std::vector<event_row> store::said_before(std::int64_t session, std::uint64_t before, std::size_t limit) {
    std::vector<event_row> rows;
    said_.bind(session)
        .bind(before == 0 ? INT64_MAX : signed_of(before))
        .bind(static_cast<std::int64_t>(limit));
    while (said_.next()) rows.push_back(read_event(said_));
    return rows;
}

std::uint64_t store::tail_begins(std::int64_t session, std::size_t count) {
    std::uint64_t begins = 0;
    tail_.bind(session).bind(static_cast<std::int64_t>(count));
    while (tail_.next()) begins = static_cast<std::uint64_t>(tail_.number(0));
    return begins;
}

bool store::knows_message(std::int64_t session, std::string_view id) {
    bool found = false;
    known_.bind(session).bind(id);
    while (known_.next()) found = true;
    return found;
}

std::vector<message_row> store::waiting(std::int64_t session) {
    std::vector<message_row> rows;
    wait_.bind(session);
    while (wait_.next())
        rows.push_back({.number = wait_.number(0),
                        .id = wait_.text(1),
                        .text = wait_.text(2),
                        .by = wait_.text(3),
                        .waiting = true});
    return rows;
}

std::optional<std::string> store::setting(std::string_view key) {
    std::optional<std::string> found;
    get_.bind(key);
    while (get_.next()) found = get_.text(0);
    return found;
}

void store::set(std::string_view key, std::string_view value) {
    put_.bind(key).bind(value).run();
}

} // namespace pinfold
