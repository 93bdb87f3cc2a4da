#include "agent/tasks/task_store.hpp"

#include <array>
#include <utility>

namespace pinfold {

namespace {

// One entry for each version. Entries are added, never changed.
constexpr std::array migrations{
    R"(CREATE TABLE tasks (
        number INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
        id TEXT NOT NULL UNIQUE, message TEXT NOT NULL, state TEXT NOT NULL, title TEXT NOT NULL,
        sender TEXT NOT NULL, asker TEXT NOT NULL, address TEXT NOT NULL, device TEXT NOT NULL,
        summary TEXT NOT NULL, last_line TEXT NOT NULL, note TEXT NOT NULL, caged INTEGER NOT NULL,
        acknowledged INTEGER NOT NULL, stalled INTEGER NOT NULL, expired INTEGER NOT NULL,
        created INTEGER NOT NULL, changed INTEGER NOT NULL, began INTEGER NOT NULL, began_seq INTEGER NOT NULL,
        nudges INTEGER NOT NULL, last_nudge INTEGER NOT NULL);
    CREATE UNIQUE INDEX task_messages_asked ON tasks (session, message);
    CREATE INDEX open_tasks ON tasks (session, number) WHERE state IN
        ('held', 'submitted', 'working', 'input-required');
    CREATE INDEX tasks_by_device ON tasks (session, device, created);
    CREATE INDEX task_notes ON tasks (number) WHERE note <> '';
    CREATE TABLE task_messages (
        number INTEGER PRIMARY KEY, task INTEGER NOT NULL REFERENCES tasks ON DELETE CASCADE,
        id TEXT NOT NULL, text TEXT NOT NULL, sender TEXT NOT NULL, delivered INTEGER NOT NULL,
        UNIQUE (task, id));
    CREATE TABLE file_requests (
        session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE, sender TEXT NOT NULL,
        name TEXT NOT NULL, size INTEGER NOT NULL, time INTEGER NOT NULL,
        PRIMARY KEY (session, sender)) WITHOUT ROWID;)",
};
static_assert(migrations.size() == task_store::version);

constexpr const char* columns =
    "session, id, message, state, title, sender, asker, address, device, summary, last_line, note, "
    "caged, acknowledged, stalled, expired, created, changed, began, began_seq, nudges, last_nudge";
constexpr const char* marks = "?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?";
constexpr const char* is_open = "state IN ('held', 'submitted', 'working', 'input-required')";

std::string select(std::string_view condition) {
    return fmt::format("SELECT number, {} FROM tasks {}", columns, condition);
}

void bind_row(statement& to, const task_row& row) {
    to.bind(row.session).bind(row.id).bind(row.message).bind(word_of(row.state));
    for (const std::string* each : {&row.title, &row.from, &row.asker, &row.address, &row.device,
                                    &row.summary, &row.last_line, &row.note})
        to.bind(*each);
    for (const bool each : {row.caged, row.acknowledged, row.stalled, row.expired})
        to.bind(std::int64_t{each ? 1 : 0});
    for (const std::int64_t each : {row.created, row.changed, row.began,
                                    static_cast<std::int64_t>(row.began_seq), row.nudges, row.last_nudge})
        to.bind(each);
}

task_row read_row(const statement& from) {
    task_row row{.number = from.number(0), .session = from.number(1), .id = from.text(2)};
    row.message = from.text(3);
    row.state = state_of(from.text(4));
    int column = 4;
    for (std::string* each : {&row.title, &row.from, &row.asker, &row.address, &row.device, &row.summary,
                              &row.last_line, &row.note})
        *each = from.text(++column);
    for (bool* each : {&row.caged, &row.acknowledged, &row.stalled, &row.expired})
        *each = from.number(++column) != 0;
    for (std::int64_t* each : {&row.created, &row.changed, &row.began}) *each = from.number(++column);
    row.began_seq = static_cast<std::uint64_t>(from.number(++column));
    row.nudges = from.number(++column);
    row.last_nudge = from.number(++column);
    return row;
}

std::optional<task_row> first(std::vector<task_row> found) {
    if (found.empty()) return std::nullopt;
    return std::move(found.front());
}

} // namespace

// The version stands among the settings: the database's own number is that of the sessions' tables.
task_store::migrated::migrated(database& in) {
    std::int64_t found = 0;
    {
        statement ask(in, "SELECT value FROM settings WHERE key = 'tasks.version'");
        while (ask.next()) found = ask.number(0);
    }
    if (found > version)
        throw store_failure(
            fmt::format("{} was written by a newer pinfold (version {} of its tasks, this one "
                        "knows {}); install that one again",
                        in.file().native(), found, version));
    for (std::int64_t next = found; next < version; ++next) {
        transaction all(in);
        in.run(migrations.at(static_cast<std::size_t>(next)));
        in.run(fmt::format("INSERT INTO settings (key, value) VALUES ('tasks.version', '{0}') "
                           "ON CONFLICT (key) DO UPDATE SET value = '{0}'",
                           next + 1));
        all.commit();
    }
}

task_store::task_store(database& in)
    : in_(in),
      migrated_(in),
      insert_(in, fmt::format("INSERT INTO tasks ({}) VALUES ({})", columns, marks)),
      update_(in, fmt::format("UPDATE tasks SET ({}) = ({}) WHERE number = ?", columns, marks)),
      by_number_(in, select("WHERE number = ?")),
      by_id_(in, select("WHERE id = ?")),
      by_message_(in, select("WHERE session = ? AND message = ?")),
      all_(in, select("ORDER BY number DESC")),
      open_(in, select(fmt::format("WHERE {} ORDER BY number", is_open))),
      open_of_(in, select(fmt::format("WHERE session = ? AND {} ORDER BY number", is_open))),
      note_(in, select("WHERE note <> '' ORDER BY number")),
      count_(in, "SELECT count(*) FROM tasks WHERE session = ? AND device = ? AND caged = ? AND created > ?"),
      drop_(in, fmt::format("DELETE FROM tasks WHERE changed < ? AND NOT ({})", is_open)),
      add_message_(in, "INSERT INTO task_messages (task, id, text, sender, delivered) VALUES (?,?,?,?,?)"),
      knows_(in, "SELECT 1 FROM task_messages WHERE task = ? AND id = ?"),
      messages_(in, "SELECT number, id, text, sender, delivered FROM task_messages WHERE task = ? "
                    "ORDER BY number"),
      delivered_(in, "UPDATE task_messages SET delivered = 1 WHERE number = ?"),
      put_request_(in, "INSERT INTO file_requests (session, sender, name, size, time) VALUES (?,?,?,?,?) "
                       "ON CONFLICT (session, sender) DO UPDATE SET name = excluded.name, "
                       "size = excluded.size, time = excluded.time"),
      cut_requests_(in, "DELETE FROM file_requests WHERE session = ?1 AND sender NOT IN (SELECT sender FROM "
                        "file_requests WHERE session = ?1 ORDER BY time DESC, sender LIMIT ?2)"),
      drop_request_(in, "DELETE FROM file_requests WHERE session = ? AND sender = ?"),
      requests_(in, "SELECT sender, name, size, time FROM file_requests WHERE session = ? "
                    "ORDER BY time DESC, sender"),
      all_requests_(in, "SELECT sender, name, size, time, session FROM file_requests "
                        "ORDER BY session, time DESC, sender") {}

file_request task_store::request_row(statement& from) {
    return {.from = from.text(0), .name = from.text(1), .size = from.number(2), .at = from.number(3)};
}

std::vector<task_row> task_store::rows(statement& from) {
    std::vector<task_row> list;
    while (from.next()) list.push_back(read_row(from));
    return list;
}

void task_store::add(task_row& row, const task_message& first) {
    transaction all(in_);
    bind_row(insert_, row);
    insert_.run();
    const std::int64_t number = in_.last_id();
    add_message_.bind(number).bind(first.id).bind(first.text).bind(first.from).bind(std::int64_t{0}).run();
    all.commit();
    row.number = number;
}

void task_store::update(const task_row& row) {
    bind_row(update_, row);
    update_.bind(row.number).run();
}

bool task_store::add_message(const task_row& to, const task_message& more) {
    bool known = false;
    knows_.bind(to.number).bind(more.id);
    while (knows_.next()) known = true;
    if (known) return false;
    transaction all(in_);
    update(to);
    add_message_.bind(to.number).bind(more.id).bind(more.text).bind(more.from).bind(std::int64_t{0}).run();
    all.commit();
    return true;
}

void task_store::deliver(const task_row& row, const std::vector<task_message>& given) {
    transaction all(in_);
    update(row);
    for (const task_message& each : given) delivered_.bind(each.number).run();
    all.commit();
}

std::optional<task_row> task_store::find(std::int64_t number) {
    return first(rows(by_number_.bind(number)));
}

std::optional<task_row> task_store::find(std::string_view id) {
    return first(rows(by_id_.bind(id)));
}

std::optional<task_row> task_store::find(std::int64_t session, std::string_view message) {
    return first(rows(by_message_.bind(session).bind(message)));
}

std::vector<task_row> task_store::all() {
    return rows(all_);
}

std::vector<task_row> task_store::open() {
    return rows(open_);
}

std::vector<task_row> task_store::open(std::int64_t session) {
    return rows(open_of_.bind(session));
}

std::vector<task_row> task_store::with_note() {
    return rows(note_);
}

std::vector<task_message> task_store::messages(std::int64_t task) {
    std::vector<task_message> list;
    messages_.bind(task);
    while (messages_.next())
        list.push_back({.number = messages_.number(0),
                        .id = messages_.text(1),
                        .text = messages_.text(2),
                        .from = messages_.text(3),
                        .delivered = messages_.number(4) != 0});
    return list;
}

std::int64_t task_store::count_since(std::int64_t session, const std::string& device, bool caged,
                                     unix_milliseconds since) {
    std::int64_t found = 0;
    count_.bind(session).bind(device).bind(std::int64_t{caged ? 1 : 0}).bind(since);
    while (count_.next()) found = count_.number(0);
    return found;
}

void task_store::drop_closed(unix_milliseconds changed_before) {
    drop_.bind(changed_before).run();
}

void task_store::put_request(std::int64_t session, const file_request& what, std::size_t most) {
    transaction all(in_);
    put_request_.bind(session).bind(what.from).bind(what.name).bind(what.size).bind(what.at).run();
    cut_requests_.bind(session).bind(static_cast<std::int64_t>(most)).run();
    all.commit();
}

void task_store::remove_request(std::int64_t session, std::string_view from) {
    drop_request_.bind(session).bind(from).run();
}

std::vector<file_request> task_store::requests(std::int64_t session) {
    std::vector<file_request> list;
    requests_.bind(session);
    while (requests_.next()) list.push_back(request_row(requests_));
    return list;
}

std::multimap<std::int64_t, file_request> task_store::requests() {
    std::multimap<std::int64_t, file_request> all;
    while (all_requests_.next())
        all.emplace_hint(all.end(), all_requests_.number(4), request_row(all_requests_));
    return all;
}

} // namespace pinfold
