#include "agent/tasks/task_row.hpp"

#include <array>

namespace pinfold {

namespace {

struct state_name {
    const char* word;
    const char* wire;
};
// In the order of task_state. A held task is "submitted" on the wire, with shrooms/held beside it: what does not know
// the word waits, as it should.
constexpr std::array names{
    state_name{"held", "TASK_STATE_SUBMITTED"},
    state_name{"submitted", "TASK_STATE_SUBMITTED"},
    state_name{"working", "TASK_STATE_WORKING"},
    state_name{"input-required", "TASK_STATE_INPUT_REQUIRED"},
    state_name{"completed", "TASK_STATE_COMPLETED"},
    state_name{"failed", "TASK_STATE_FAILED"},
    state_name{"canceled", "TASK_STATE_CANCELED"},
    state_name{"rejected", "TASK_STATE_REJECTED"},
};

} // namespace

const char* word_of(task_state state) noexcept {
    return names.at(static_cast<std::size_t>(state)).word;
}

const char* wire_of(task_state state) noexcept {
    return names.at(static_cast<std::size_t>(state)).wire;
}

task_state state_of(std::string_view word) noexcept {
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (names[i].word == word) return static_cast<task_state>(i);
    }
    return task_state::held;
}

bool is_closed(task_state state) noexcept {
    return state == task_state::completed || state == task_state::failed || state == task_state::canceled ||
           state == task_state::rejected;
}

} // namespace pinfold
