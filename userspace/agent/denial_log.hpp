// The last refusals of the owner's cages, and whoever follows them.
#pragma once

#include "agent/event.hpp"

#include <cstdint>
#include <deque>
#include <pinfold/denial.h>
#include <string>

namespace pinfold {

struct denial_entry {
    std::uint64_t number = 0; // counts up from 1
    pinfold_denial what{};
    std::string cage; // its name
    std::uint64_t unix_nanoseconds = 0;
};

class denial_log {
public:
    static constexpr std::size_t kept = 1000;

    void add(const pinfold_denial& what, std::string cage);
    void set_lost(std::uint64_t lost) noexcept { lost_ = lost; }

    [[nodiscard]] const std::deque<denial_entry>& entries() const noexcept { return entries_; }
    [[nodiscard]] std::uint64_t last_number() const noexcept { return last_number_; }
    // Not told by the keeper, because its ring was full.
    [[nodiscard]] std::uint64_t lost() const noexcept { return lost_; }
    [[nodiscard]] std::uint64_t count(std::uint64_t cage) const;

    // Wakes everybody who waits for the next entry; they look again.
    void poke() noexcept { changed_.pulse(); }
    [[nodiscard]] event::awaiter change() { return changed_.wait(); }

private:
    std::deque<denial_entry> entries_;
    std::uint64_t last_number_ = 0;
    std::uint64_t lost_ = 0;
    event changed_;
};

} // namespace pinfold
