// Closing costs a fifth of a short connection's time and nobody waits for it: a new SYN goes first.
#pragma once

#include "base/unique_fd.hpp"
#include "ring/uring.hpp"

#include <vector>

namespace pinfold {

class closer final : public deferred {
public:
    explicit closer(uring& ring) : ring_(ring) {}
    closer(const closer&) = delete;
    closer& operator=(const closer&) = delete;
    ~closer() { ring_.forget(*this); }

    void take(unique_fd what) {
        if (waiting_.size() == most_waiting) waiting_.clear(); // never idle: no reason to hoard
        waiting_.push_back(std::move(what));
        ring_.when_idle(*this);
    }

private:
    static constexpr std::size_t most_waiting = 64;

    // One, then the ring is looked at again.
    void run() noexcept override {
        if (!waiting_.empty()) waiting_.pop_back();
        if (!waiting_.empty()) ring_.when_idle(*this);
    }

    uring& ring_;
    std::vector<unique_fd> waiting_;
};

} // namespace pinfold
