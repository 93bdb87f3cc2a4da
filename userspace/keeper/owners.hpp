// What an owner may hand to a cage: every source of a mount is opened with the owner's own credentials.
#pragma once

#include "base/unique_fd.hpp"
#include "cage/cage.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace pinfold {

struct owner {
    uid_t uid = 65534;
    gid_t gid = 65534;
    std::vector<gid_t> groups; // supplementary, as the kernel says of the peer (SO_PEERGROUPS)

    [[nodiscard]] owner_identity identity() const { return {uid, gid}; }
};

// Who is at the other end of a connection.
[[nodiscard]] owner owner_of(int connection);

// As /etc/passwd has it, empty where it has none.
[[nodiscard]] std::string home_directory(uid_t uid);

// The owner's directory or file, O_PATH, every part of the path searched as the owner and no link followed (the path is
// already canonical). Throws with the path and the reason.
[[nodiscard]] unique_fd open_as(const owner& who, const std::filesystem::path& path);

// Throws unless this directory may be a project: writable, on a file system that is, and, when sealed, neither the
// owner's home, nor above it, nor a place where credentials lie (boundary.md, "Files").
void check_project(const owner& who, const std::filesystem::path& path, int directory, cage_mode mode);

} // namespace pinfold
