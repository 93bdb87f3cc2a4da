// Whether the agents of other machines heed that an asker is in a cage. Older ones do not, and take what they are sent.
#pragma once

#include "agent/proxy/cage_ask.hpp"
#include "ring/task.hpp"
#include "ring/uring.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace pinfold {

struct receiver {
    machine at;
    enum class heeds : std::uint8_t { unreachable, unknown, no, yes } is = heeds::unreachable;

    [[nodiscard]] std::string text() const; // for the owner
};

// All at once. Each is asked, as from a cage, for a change of a session's settings that changes nothing: only an agent that
// heeds the header refuses. Without a session there is nothing to ask for, and it stays unknown.
task<std::vector<receiver>> look_at_receivers(uring& ring, task_group& group, std::vector<machine> others,
                                              std::uint16_t port);

} // namespace pinfold
