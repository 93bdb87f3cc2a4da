// The last refusals of the owner's cages, and whoever follows them.
#pragma once

#include "agent/event.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <pinfold/denial.h>
#include <string>

namespace pinfold {

struct denial_entry {
    std::uint64_t number = 0; // counts up from 1
    pinfold_denial what{};
    std::string cage;            // its name
    const char* wall = "guards"; // or "relay", which knows no process
    bool scratch = false;        // of the doctor's own acts, which nobody wants to see listed
    std::uint64_t unix_nanoseconds = 0;
};

class denial_log {
public:
    static constexpr std::size_t kept = 1000;

    void add(const pinfold_denial& what, std::string cage, const char* wall = "guards", bool scratch = false);
    // What the relay refused, no more than so many a second of one cage: a flood must not push the others' out.
    void add_of_relay(const pinfold_denial& what, std::string cage);
    void set_lost(std::uint64_t lost) noexcept { lost_ = lost; }

    [[nodiscard]] const std::deque<denial_entry>& entries() const noexcept { return entries_; }
    [[nodiscard]] std::uint64_t last_number() const noexcept { return last_number_; }
    // Refused like the others and not on record: the keeper's ring was full, or the relay refused too many in a second.
    [[nodiscard]] std::uint64_t lost() const noexcept { return lost_ + untold_; }
    [[nodiscard]] std::uint64_t count(std::uint64_t cage) const;

    // Wakes everybody who waits for the next entry; they look again.
    void poke() noexcept { changed_.pulse(); }
    [[nodiscard]] event::awaiter change() { return changed_.wait(); }

private:
    std::deque<denial_entry> entries_;
    std::uint64_t last_number_ = 0;
    std::uint64_t lost_ = 0, untold_ = 0;
    std::uint64_t second_ = 0;                    // since boot: of the counts below
    std::map<std::uint64_t, unsigned> in_second_; // cage -> how many of the relay's
    event changed_;
};

} // namespace pinfold
