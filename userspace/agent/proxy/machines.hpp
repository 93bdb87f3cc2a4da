// The machines whose agents may be asked: of the shrooms daemon where there is one, else of a file.
#pragma once

#include "agent/proxy/cage_ask.hpp"
#include "ring/uring.hpp"

#include <chrono>
#include <filesystem>

namespace pinfold {

class machine_list {
public:
    struct settings {
        std::filesystem::path peers;  // {"machines": [{"name", "addr"}, …]}, this machine first
        std::filesystem::path daemon; // the shrooms daemon's control socket; asked first, where it is there
        std::string name;             // of this machine, where neither says it
    };

    machine_list(uring& ring, settings from) : ring_(ring), from_(std::move(from)) {}
    machine_list(const machine_list&) = delete;
    machine_list& operator=(const machine_list&) = delete;
    ~machine_list() = default;

    // This machine first, each peer once. Throws what keeps it from knowing: a daemon that does not answer, a bad file.
    task<std::vector<machine>> read();

private:
    task<std::string> ask_daemon();

    uring& ring_;
    settings from_;
    std::vector<machine> known_;
    std::chrono::steady_clock::time_point known_until_{};
};

[[nodiscard]] std::vector<machine> parse_peers(std::string_view json);  // throws
[[nodiscard]] std::vector<machine> parse_status(std::string_view json); // of the daemon; throws

} // namespace pinfold
