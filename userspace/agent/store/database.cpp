#include "agent/store/database.hpp"

#include <spdlog/spdlog.h>
#include <sqlite3.h>

namespace pinfold {

void detail::close_database::operator()(sqlite3* open) const noexcept {
    ::sqlite3_close_v2(open);
}

void detail::finalize_statement::operator()(sqlite3_stmt* prepared) const noexcept {
    ::sqlite3_finalize(prepared);
}

namespace {

std::string explain(sqlite3* open, const std::filesystem::path& file, std::string_view act) {
    const int code = open == nullptr ? SQLITE_NOMEM : ::sqlite3_errcode(open);
    std::string text = fmt::format("{} {}: {}", act, file.native(),
                                   open == nullptr ? "out of memory" : ::sqlite3_errmsg(open));
    if (code == SQLITE_FULL) text += "; free some space and try again";
    if (code == SQLITE_BUSY)
        text += "; another agent uses it: end that one, or give this one another --state";
    if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT)
        text += "; move the file away to begin anew, its sessions are lost then";
    return text;
}

} // namespace

database::database(const std::filesystem::path& file) : file_(file) {
    sqlite3* opened = nullptr;
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;
    const int result = ::sqlite3_open_v2(file.c_str(), &opened, flags, nullptr);
    open_.reset(opened);
    if (result != SQLITE_OK) throw store_failure(explain(opened, file_, "open"));
    // A commit is in the kernel's hands when it returns, so it survives the end of this process however it comes. It is
    // not synced to the disk each time: the one thread that writes here also carries every packet of every cage, and
    // would stand still for it. A power cut can take the last moments; it never breaks the file.
    // One agent for one file: a second one is refused, or the two would tell their clients different things.
    run("PRAGMA busy_timeout = 2000");
    run("PRAGMA locking_mode = EXCLUSIVE");
    run("PRAGMA journal_mode = WAL");
    run("PRAGMA synchronous = NORMAL");
    run("PRAGMA foreign_keys = ON");
}

void database::run(const std::string& sql) {
    if (::sqlite3_exec(open_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
        throw store_failure(explain(open_.get(), file_, "write"));
}

std::int64_t database::changes() const {
    return ::sqlite3_total_changes64(open_.get());
}

std::int64_t database::last_id() const {
    return ::sqlite3_last_insert_rowid(open_.get());
}

std::string database::trouble() const {
    return explain(open_.get(), file_, "use");
}

statement::statement(database& in, std::string_view sql) : in_(in) {
    sqlite3_stmt* prepared = nullptr;
    if (::sqlite3_prepare_v3(in.raw(), sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                             &prepared, nullptr) != SQLITE_OK)
        give_up("read");
    prepared_.reset(prepared);
}

void statement::give_up(const char* act) {
    std::string why = explain(in_.raw(), in_.file(), act);
    if (prepared_) ::sqlite3_reset(prepared_.get());
    bound_ = 0;
    throw store_failure(why);
}

statement& statement::bind(std::int64_t value) {
    if (::sqlite3_bind_int64(prepared_.get(), ++bound_, value) != SQLITE_OK) give_up("write");
    return *this;
}

statement& statement::bind(std::string_view value) {
    const char* data = value.data() == nullptr ? "" : value.data();
    if (::sqlite3_bind_text64(prepared_.get(), ++bound_, data, value.size(), SQLITE_TRANSIENT, SQLITE_UTF8) !=
        SQLITE_OK)
        give_up("write");
    return *this;
}

bool statement::next() {
    const int result = ::sqlite3_step(prepared_.get());
    if (result == SQLITE_ROW) return true;
    if (result != SQLITE_DONE) give_up("write");
    ::sqlite3_reset(prepared_.get());
    bound_ = 0;
    return false;
}

void statement::run() {
    while (next()) {
    }
}

std::int64_t statement::number(int column) const {
    return ::sqlite3_column_int64(prepared_.get(), column);
}

std::string statement::text(int column) const {
    const auto* bytes = reinterpret_cast<const char*>(::sqlite3_column_text(prepared_.get(), column));
    const auto size = static_cast<std::size_t>(::sqlite3_column_bytes(prepared_.get(), column));
    return bytes == nullptr ? std::string() : std::string(bytes, size);
}

transaction::~transaction() {
    if (done_) return;
    try {
        in_.run("ROLLBACK");
    } catch (const store_failure&) {
        // A failed commit may have rolled back by itself: there is nothing left to undo then.
        spdlog::debug("nothing to roll back in {}", in_.file().native());
    }
}

void transaction::commit() {
    in_.run("COMMIT");
    done_ = true;
}

} // namespace pinfold
