// An uncaged program: the owner's own child, with nothing between it and the machine.
#pragma once

#include "agent/program.hpp"
#include "spec/cage_spec.hpp"

#include <memory>

namespace pinfold {

// The program could not be executed: as shells say it, 127 where it was not found and 126 otherwise.
class exec_failure : public failure {
public:
    exec_failure(int status, const std::string& text) : failure(text), status_(status) {}
    [[nodiscard]] int status() const noexcept { return status_; }

private:
    int status_;
};

class host_program final : public program {
public:
    // Starts it. `file_limit` is the number of open files the agent itself was started with. Throws exec_failure.
    [[nodiscard]] static std::shared_ptr<host_program> start(uring& ring, const command_spec& command,
                                                             std::uint64_t file_limit);

    host_program(uring& ring, pid_t pid, unique_fd pidfd, program_streams from);

    // Waits for its end and reports it. Spawned once, by whoever started it.
    task<> watch(std::shared_ptr<host_program> self);

    task<> send_signal(int number) override;
    task<> kill() override;
    [[nodiscard]] pid_t pid() const noexcept { return pid_; }

private:
    uring& ring_;
    pid_t pid_;
    unique_fd pidfd_;
};

} // namespace pinfold
