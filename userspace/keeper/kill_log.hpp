// Which process the kernel killed for want of memory. A cgroup counts such kills; only the kernel's log has the name.
#pragma once

#include "base/unique_fd.hpp"

#include <map>
#include <optional>
#include <string>

namespace pinfold {

struct memory_victim {
    std::string cage; // name of its cgroup, whose limit was reached
    std::string name; // of the process: 15 characters at most, chosen by whoever ran it

    bool operator==(const memory_victim&) const = default;
};

// From a record of /dev/kmsg. Nothing where it tells of something else, also of a kill for want of the machine's memory.
[[nodiscard]] std::optional<memory_victim> parse_kill(const std::string& record);

class kill_log {
public:
    // From now on. Where the log cannot be read, the names are not known, and that is said once.
    kill_log();

    // The process killed last in this cage since it was last asked; empty where it is not known, for the kernel leaves such
    // lines out when there are many.
    [[nodiscard]] std::string take(const std::string& cage);

private:
    void read_on();

    unique_fd log_;
    std::map<std::string, std::string> last_;
};

} // namespace pinfold
