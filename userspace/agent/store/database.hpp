// SQLite behind two types: a database that is opened or refused with a reason, and a statement that is used again.
#pragma once

#include "base/error.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace pinfold {

// The store could not read or keep something. Nothing of the transaction remains; the same again may work.
class store_failure : public failure {
public:
    using failure::failure;
};

namespace detail {
struct close_database {
    void operator()(sqlite3* open) const noexcept;
};
struct finalize_statement {
    void operator()(sqlite3_stmt* prepared) const noexcept;
};
} // namespace detail

class database;

// One prepared statement. Each run: bind in order, then next() until it is false, or run().
class statement {
public:
    statement(database& in, std::string_view sql);

    statement& bind(std::int64_t value);
    statement& bind(std::string_view value);
    // The next row; false after the last, and the statement may be bound again.
    bool next();
    void run();

    [[nodiscard]] std::int64_t number(int column) const;
    [[nodiscard]] std::string text(int column) const;

private:
    [[noreturn]] void give_up(const char* act);

    database& in_;
    std::unique_ptr<sqlite3_stmt, detail::finalize_statement> prepared_;
    int bound_ = 0;
};

class database {
public:
    // Opens or makes it, for one writer: this process. Throws store_failure.
    explicit database(const std::filesystem::path& file);

    void run(const std::string& sql);
    [[nodiscard]] std::int64_t last_id() const;
    [[nodiscard]] std::int64_t changes()
        const; // rows written since it was opened: what was read before is as it was
    [[nodiscard]] std::string trouble() const; // what the last call said

    [[nodiscard]] sqlite3* raw() const noexcept { return open_.get(); }
    [[nodiscard]] const std::filesystem::path& file() const noexcept { return file_; }

private:
    std::filesystem::path file_;
    std::unique_ptr<sqlite3, detail::close_database> open_;
};

// Everything between begin and commit() is kept, or nothing.
class transaction {
public:
    explicit transaction(database& in) : in_(in) { in_.run("BEGIN IMMEDIATE"); }
    transaction(const transaction&) = delete;
    transaction& operator=(const transaction&) = delete;
    ~transaction();
    void commit();

private:
    database& in_;
    bool done_ = false;
};

} // namespace pinfold
