// Whoever follows a session's events: what is to be sent, in order, and not more than a client that keeps up needs.
#pragma once

#include "agent/event.hpp"

#include <deque>
#include <memory>
#include <string>

namespace pinfold {

struct listener {
    static constexpr std::size_t longest = 256; // events; who lags further behind is disconnected

    std::deque<std::shared_ptr<const std::string>> blocks;
    bool lost = false; // it lagged, or the session is gone: the stream ends, and its client may come again
    event news;

    void put(const std::shared_ptr<const std::string>& block) {
        if (lost) return;
        if (blocks.size() >= longest)
            end();
        else
            blocks.push_back(block);
        news.pulse();
    }
    void end() {
        lost = true;
        blocks.clear();
        news.pulse();
    }
};

} // namespace pinfold
