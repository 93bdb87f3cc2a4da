// A running program and its standard streams, in a cage or not: what a stdio connection talks to.
#pragma once

#include "agent/event.hpp"
#include "base/unique_fd.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace pinfold {

// The agent's ends, non-blocking. With a terminal `input` is the pty's master and `output` a second fd of it; there is
// no `errors` then.
struct program_streams {
    unique_fd input;
    unique_fd output;
    unique_fd errors;
    bool terminal = false;

    // Takes what keeper or fork handed over: stdin, stdout, stderr, or the master alone. Throws where the number differs.
    [[nodiscard]] static program_streams from(std::vector<unique_fd> fds, bool terminal);
};

struct program_end {
    int status = 0;                // 0 to 255, 128 + signal
    bool memory_kill = false;      // the limit ended it
    std::uint64_t memory_peak = 0; // bytes, where known
    std::uint64_t memory_limit = 0;
    std::uint32_t memory_kills = 0; // of whatever ran in its cage
    std::string memory_victim;      // the last one's name, where known
    bool keeper_lost = false;       // nobody can say any more how it ended
};

class program {
public:
    program() = default;
    program(const program&) = delete;
    program& operator=(const program&) = delete;
    virtual ~program() = default;

    // Best effort: a program that is gone is no error.
    virtual task<> send_signal(int number) = 0;
    // Ends it for sure, with everything that belongs to it: a cage's first program takes the cage along.
    virtual task<> kill() = 0;

    void finish(const program_end& how) {
        if (ended.is_set()) return;
        end = how;
        ended.set();
        news.pulse();
    }
    void lose_keeper() {
        orphaned = true;
        news.pulse();
    }
    // Another keeper took it over. It will tell of the end, but of a process that is not its child never the status.
    void find_keeper() {
        orphaned = false;
        adopted = true;
    }

    program_streams streams;
    event ended;
    event news;            // ended, or orphaned
    program_end end;       // once ended is set
    bool orphaned = false; // the keeper that would tell of its end is gone
    bool adopted = false;  // another than the one that started it will tell
};

} // namespace pinfold
