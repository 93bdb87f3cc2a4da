// The tries local4 and local6: what is local to this machine, as the guards look it up.
#pragma once

#include "cage/guards.hpp"

#include <map>
#include <span>

namespace pinfold {

class local_tries {
public:
    // Map fds, which must outlive this. Reads what an earlier keeper left in them.
    local_tries(int local4, int local6);

    // Makes the tries hold exactly these; what is new goes in before what is old goes out. Throws when one is full: it
    // then holds more than before, never less, and the next call goes on from there.
    void set(std::span<const local_prefix> wanted);

    // Asks the tries themselves, as a guard does.
    [[nodiscard]] local_answer find(const local_prefix& address) const;

private:
    void read(std::uint8_t family);
    void add(const local_prefix& prefix);
    void remove(const local_prefix& prefix);
    [[nodiscard]] int map_of(std::uint8_t family) const;

    int local4_;
    int local6_;
    std::map<local_prefix, bool> held_; // prefix without its flag -> the flag
};

} // namespace pinfold
