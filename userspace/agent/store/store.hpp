// What outlives the agent: sessions, their events and their messages, in one SQLite file of the owner's.
#pragma once

#include "agent/store/database.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pinfold {

struct session_row {
    std::int64_t id = 0; // 0 = not kept yet
    std::string name;
    std::string directory;
    std::string harness;      // "claude", "pi", "command"
    std::string conversation; // the harness's own id of it; empty = none yet
    std::string mode;         // "uncaged", "caged", "sealed"
    std::string cage;         // the name of its cage; chosen anew at each move
    std::string options;      // JSON: what the cage is given, its limits, the command
    std::string settings;     // JSON: what the owner set
    bool running = false;     // a program of its runs; true at the agent's start = the agent was killed
    std::uint64_t last_seq = 0;
    std::string last_time; // RFC 3339 of the last event
    std::string preview;   // the beginning of what was said last
    std::string model;
    std::uint64_t turns = 0, context_used = 0, context_window = 0;
    std::uint64_t tokens_in = 0, tokens_out = 0, requests = 0; // as the gateway counted them
};

struct event_row {
    std::uint64_t seq = 0;
    std::string time; // RFC 3339
    std::string kind;
    std::string by;   // empty = the session itself
    std::string data; // JSON; empty = none
};

struct message_row {
    std::int64_t number = 0; // of the store; 0 = not kept yet
    std::string id;          // the sender's; empty = none
    std::string text;
    std::string by;
    bool waiting = false; // not given to the harness yet
};

// One change of one session: all of it is kept, or nothing.
struct session_change {
    session_row session; // as it is afterwards
    std::vector<event_row> events;
    std::vector<message_row> messages;   // new ones; their numbers are filled in
    std::vector<std::int64_t> delivered; // that waited and do no more
};

class store {
public:
    // Brings an older file to this version. Throws store_failure, also where a newer pinfold wrote it.
    explicit store(const std::filesystem::path& file);

    static constexpr int version = 1;

    [[nodiscard]] std::vector<session_row> sessions();
    // Fills in the id. Throws store_failure.
    void add(session_row& row, const std::vector<event_row>& first_events);
    void apply(session_change& change);
    void remove(std::int64_t session);

    // Those behind `after`, at most `limit`, oldest first.
    [[nodiscard]] std::vector<event_row> events(std::int64_t session, std::uint64_t after, std::size_t limit);
    // Those before `before` (0 = the end), newest first, of these kinds only ("message", "claude").
    [[nodiscard]] std::vector<event_row> said_before(std::int64_t session, std::uint64_t before,
                                                     std::size_t limit);
    // The number behind which exactly `count` events come.
    [[nodiscard]] std::uint64_t tail_begins(std::int64_t session, std::size_t count);
    [[nodiscard]] bool knows_message(std::int64_t session, std::string_view id);
    [[nodiscard]] std::vector<message_row> waiting(std::int64_t session);

    // The machine's own settings.
    [[nodiscard]] std::optional<std::string> setting(std::string_view key);
    void set(std::string_view key, std::string_view value);

    // For tables of others beside these: one process, one connection.
    [[nodiscard]] database& file() noexcept { return in_; }

private:
    void write_events(std::int64_t session, const std::vector<event_row>& events);
    void write_row(const session_row& row);

    struct migrated {
        explicit migrated(database& in);
    };

    database in_;
    migrated migrated_; // before the statements: they name its tables
    statement list_, insert_, update_, delete_, event_, after_, said_, tail_, message_, done_, known_, wait_,
        get_, put_;
};

} // namespace pinfold
