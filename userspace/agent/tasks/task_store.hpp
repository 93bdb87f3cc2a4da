// Tasks, their messages and refused files, kept in the database of the sessions: a session that goes takes them along.
#pragma once

#include "agent/store/database.hpp"
#include "agent/tasks/task_row.hpp"

#include <map>
#include <optional>
#include <vector>

namespace pinfold {

class task_store {
public:
    static constexpr int version = 1; // of its tables, beside the version of the sessions'

    // Brings older tables to this version. Throws store_failure, as every call here does: nothing of it was done then.
    explicit task_store(database& in);

    // Fills in the numbers.
    void add(task_row& row, const task_message& first);
    void update(const task_row& row);
    // False where this task has a message with this id.
    bool add_message(const task_row& to, const task_message& more);
    // The row as it is once these messages were given to the worker.
    void deliver(const task_row& row, const std::vector<task_message>& given);

    [[nodiscard]] std::optional<task_row> find(std::int64_t number);
    [[nodiscard]] std::optional<task_row> find(std::string_view id);
    [[nodiscard]] std::optional<task_row> find(std::int64_t session, std::string_view message);
    [[nodiscard]] std::vector<task_row> all();  // newest first
    [[nodiscard]] std::vector<task_row> open(); // oldest first
    [[nodiscard]] std::vector<task_row> open(std::int64_t session);
    [[nodiscard]] std::vector<task_row> with_note(); // due
    [[nodiscard]] std::vector<task_message> messages(std::int64_t task);

    [[nodiscard]] std::int64_t count_since(std::int64_t session, const std::string& device, bool caged,
                                           unix_milliseconds since);
    void drop_closed(unix_milliseconds changed_before);

    // The latest of each sender, at most `most` of a session.
    void put_request(std::int64_t session, const file_request& what, std::size_t most);
    void remove_request(std::int64_t session, std::string_view from);
    [[nodiscard]] std::vector<file_request> requests(std::int64_t session); // newest first
    [[nodiscard]] std::multimap<std::int64_t, file_request> requests();     // by session, newest first

private:
    struct migrated {
        explicit migrated(database& in);
    };

    [[nodiscard]] static std::vector<task_row> rows(statement& from);
    [[nodiscard]] static file_request request_row(statement& from);

    database& in_;
    migrated migrated_;
    statement insert_, update_, by_number_, by_id_, by_message_, all_, open_, open_of_, note_, count_, drop_;
    statement add_message_, knows_, messages_, delivered_, put_request_, cut_requests_, drop_request_,
        requests_, all_requests_;
};

} // namespace pinfold
