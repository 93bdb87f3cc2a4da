// Walks a process from system call to system call with ptrace, so that a test can kill it at each of them.
#pragma once

#include <functional>
#include <sys/types.h>

namespace pinfold::test {

class tracer {
public:
    // Takes hold of a running process and stops it. It goes on when this object ends, if it still lives.
    explicit tracer(pid_t pid);
    tracer(const tracer&) = delete;
    tracer& operator=(const tracer&) = delete;
    ~tracer();

    // Lets it make `calls` more system calls; each has two stops. False when `done` came true before, also while the
    // process sleeps in one of them, or when it ended: the walk is at its end.
    [[nodiscard]] bool step(int calls, const std::function<bool()>& done);
    // Up to its next system call of this number, before it is carried out. False when it ended before.
    [[nodiscard]] bool run_to(long call);

private:
    bool wait_for_stop(const std::function<bool()>& done);
    void go_on();

    pid_t pid_;
    bool ended_ = false;
    int pending_ = 0; // a signal that stopped it, to be delivered
};

} // namespace pinfold::test
