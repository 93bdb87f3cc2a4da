// What each session left in its project: a look now, against what was there before its first program ran in a cage.
#pragma once

#include "agent/report/set_id_bits.hpp"
#include "ring/task.hpp"
#include "ring/uring.hpp"

#include <optional>
#include <string_view>

namespace pinfold {

namespace report {

struct finding {
    item what;
    enum class state : std::uint8_t {
        is_new,
        changed,
        there,
        taken_off
    } is = state::is_new; // there: it was, before the session; taken_off: it is not any more, and this agent did it
};

struct look {
    std::string since; // when the first look was taken; empty = none was
    std::vector<finding> found;
    std::size_t entries = 0;
    bool is_complete = true;
};

// Pure. `before` null: nobody looked, so nothing can be called new, and programs are not told of.
[[nodiscard]] look compare(const picture* before, picture now);
[[nodiscard]] const char* to_string(finding::state is) noexcept;

// JSON of what is new or changed, for an event; empty = nothing is.
[[nodiscard]] std::string event_text(const look& from);

struct taken_bits {
    set_id_file file;
    std::string time;
};
struct kept_picture {
    picture seen;
    std::string project, time;
    std::vector<taken_bits> taken; // since then, the newest last
};
// What was taken off, and what could not be, put into what is there now.
void add_taken(look& to, const std::vector<taken_bits>& taken);
[[nodiscard]] std::string to_text(const kept_picture& from);
[[nodiscard]] std::optional<kept_picture> picture_from(std::string_view text); // nothing = it is none

} // namespace report

class project_reports {
public:
    project_reports(uring& ring, const std::filesystem::path& state)
        : ring_(ring), folder_(state / "reports") {}
    project_reports(const project_reports&) = delete;
    project_reports& operator=(const project_reports&) = delete;
    ~project_reports() = default;

    // Keeps what is there, once for a session: what its first program finds. Never throws: what was not looked at is
    // said by the report.
    task<> remember(std::int64_t session, std::filesystem::path project);
    // Throws std::system_error where the project is not to be read.
    task<report::look> look(std::int64_t session, std::filesystem::path project);
    // The same after a program of it has ended, and before that takes off the set-user-ID bits that it left.
    task<report::look> clear_and_look(std::int64_t session, std::filesystem::path project);
    void forget(std::int64_t session) noexcept;

private:
    task<report::picture> scan(std::filesystem::path project);
    [[nodiscard]] std::optional<report::kept_picture> kept(std::int64_t session,
                                                           const std::filesystem::path& project) const;
    void keep_taken(std::int64_t session, const std::filesystem::path& project,
                    const std::vector<report::taken_bits>& taken) const;

    uring& ring_;
    std::filesystem::path folder_;
};

} // namespace pinfold
