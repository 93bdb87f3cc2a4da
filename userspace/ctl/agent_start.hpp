// Reaching the owner's agent: the one that runs, or one started on demand.
#pragma once

#include "base/unique_fd.hpp"
#include "ctl/command_line.hpp"

#include <filesystem>
#include <string>
#include <sys/types.h>

namespace pinfold::ctl {

// Who the cages belong to.
struct owner {
    uid_t uid = 0;
    gid_t gid = 0;
    std::string name;
    std::string home;
    bool other = false; // root acts for somebody else
};

// The user who runs this, or --owner's where root does. Throws usage_error.
[[nodiscard]] owner find_owner(const common_options& options);

[[nodiscard]] std::filesystem::path api_socket_of(const common_options& options, const owner& whose);

// A connection to the agent; `start` = start it where none listens. Throws with what to do.
[[nodiscard]] unique_fd connect_to_agent(const common_options& options, const owner& whose,
                                         bool start = true);

} // namespace pinfold::ctl
