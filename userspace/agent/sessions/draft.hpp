// A change of a session that is being put together: its events with their numbers, and what is told once it is kept.
#pragma once

#include "agent/store/store.hpp"

#include <memory>

namespace pinfold {

struct session_draft {
    session_change change;
    std::vector<std::shared_ptr<const std::string>> blocks; // server-sent events

    void note(std::string kind, std::string by, std::string data);
    void show(std::string_view text); // a partial event: told, not kept
};

} // namespace pinfold
