// The machines whose agents may be asked: of the shrooms daemon where there is one, else of a file.
#pragma once

#include "agent/proxy/cage_ask.hpp"
#include "ring/uring.hpp"

#include <chrono>
#include <filesystem>
#include <memory>

namespace pinfold {

// A network of machines, with a name of its own. This machine may be on several, and a session be limited to some.
struct mesh {
    std::string label;
    std::string own; // this machine's address on it
    std::vector<machine> peers;
};

struct known_machines {
    std::vector<machine> machines; // this one first, each peer once
    std::vector<mesh> meshes;      // those that have a name
};

class machine_list {
public:
    struct settings {
        std::filesystem::path peers;  // {"machines": [{"name", "addr", "mesh"}, …]}, this machine first
        std::filesystem::path daemon; // the shrooms daemon's control socket; asked first, where it is there
        std::string name;             // of this machine, where neither says it
    };

    machine_list(uring& ring, settings from) : ring_(ring), from_(std::move(from)) {}
    machine_list(const machine_list&) = delete;
    machine_list& operator=(const machine_list&) = delete;
    ~machine_list() = default;

    // What is known, and new enough; null: read().
    [[nodiscard]] std::shared_ptr<const known_machines> fresh() const;
    // Throws what keeps it from knowing: a daemon that does not answer, a bad file.
    task<std::shared_ptr<const known_machines>> read();

private:
    task<std::string> ask_daemon();

    uring& ring_;
    settings from_;
    std::shared_ptr<const known_machines> known_;
    std::chrono::steady_clock::time_point known_until_{};
};

[[nodiscard]] known_machines parse_peers(std::string_view json);  // throws
[[nodiscard]] known_machines parse_status(std::string_view json); // of the daemon; throws

} // namespace pinfold
