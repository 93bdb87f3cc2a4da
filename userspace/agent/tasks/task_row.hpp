// What is kept of a task: work that another agent asked of a session, open until the worker says how it ended.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pinfold {

// Zero is the strictest: a task whose state nobody filled in waits for the owner.
enum class task_state : std::uint8_t {
    held,           // asked by a cage that the session does not take tasks from: its owner decides
    submitted,      // taken, and waits for its turn
    working,        // given to the worker
    input_required, // the worker asks something back
    completed,
    failed,
    canceled,
    rejected, // declined by the owner
};

[[nodiscard]] const char* word_of(task_state state) noexcept; // as the store and the CLI write it
[[nodiscard]] const char* wire_of(task_state state) noexcept; // as A2A writes it; held is submitted there
[[nodiscard]] task_state state_of(std::string_view word) noexcept;
[[nodiscard]] bool is_closed(task_state state) noexcept;

using unix_milliseconds = std::int64_t;

struct task_row {
    std::int64_t number = 0;  // of the store; 0 = not kept yet
    std::int64_t session = 0; // the worker's
    std::string id;           // SESSION:MESSAGE, as the asker was told; a rename of the session keeps it
    std::string message;      // the asker's id of its first message
    task_state state = task_state::held;
    std::string title;
    std::string from;    // as the worker and the owner read it; empty = this machine's own
    std::string asker;   // MACHINE/SESSION that is told of news; empty = nobody
    std::string address; // of the asker's agent; empty = this machine
    std::string device;  // by which new tasks are counted
    bool caged = false;  // asked by a cage, as its own agent says
    unix_milliseconds created = 0, changed = 0, began = 0; // began: when the worker got it last
    std::uint64_t began_seq = 0;                           // the session's last event before that
    std::string summary;                                   // what was said of its state last
    std::string last_line;                                 // the worker's last words, once it is closed
    bool acknowledged = false, stalled = false, expired = false;
    std::int64_t nudges = 0;
    unix_milliseconds last_nudge = 0;
    std::string note; // the id of a note that its asker has not got yet; empty = none is due
};

struct task_message {
    std::int64_t number = 0;
    std::string id; // the asker's
    std::string text;
    std::string from; // as the worker reads it
    bool delivered = false;
};

// Somebody wanted to send a file and was not allowed to.
struct file_request {
    std::string from; // MACHINE/SESSION
    std::string name;
    std::int64_t size = 0;
    unix_milliseconds at = 0;
};

} // namespace pinfold
