// Where the guards are tried by themselves: a namespace in which every address is local and sinks count what arrives,
// and a cgroup that stands for a cage's. No relay stands behind, so what a guard lets through does arrive.
#pragma once

#include "cage/guards.hpp"
#include "cagebreak/kernel_scratch.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace pinfold::test {

constexpr std::uint16_t sink_port = 9000;
constexpr std::uint16_t agent_port = 7387;

// Listens on all addresses of its namespace, TCP and UDP, both families, on sink_port and agent_port.
class sinks {
public:
    sinks();
    // Bytes that came in since the last call.
    [[nodiscard]] std::size_t arrived();
    [[nodiscard]] const unique_fd& space() const { return space_; }

private:
    unique_fd space_;
    std::vector<unique_fd> datagrams_;
    std::vector<unique_fd> listeners_;
};

// What `act` answered (an errno, 0 = done) in a process of its own that was in the cgroup and the namespace from its
// first socket on. `pid`, if given, is set to its pid.
int run_in(const scratch_cgroup& cgroup, const unique_fd& space, const std::function<int()>& act,
           pid_t* pid = nullptr);

// One way of sending a byte: 0 or errno.
using way = int (*)(const std::string& host, std::uint16_t port);
struct named_way {
    const char* name;
    way send;
    bool tcp;
};
extern const std::vector<named_way> ways;

// The standard output of a program of the machine; skips the test when there is none of this name.
std::string output_of(const std::vector<std::string>& command);

} // namespace pinfold::test
