// The mounts of a cage, made by the keeper as detached mounts: until the child moves them into its own namespace they
// are a few file descriptors, and closing those frees them all.
#pragma once

#include "base/unique_fd.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

namespace pinfold {

// Gives the process a mount namespace of its own that follows the machine's and tells it nothing back: what the keeper
// attaches for a moment is never seen, and never left, in the machine's tree.
void leave_machine_mounts();

// Where the keeper attaches a layer for the moment in which an overlay takes it: before kernel 6.15 overlayfs refuses
// detached ones.
class scratch {
public:
    explicit scratch(const std::filesystem::path& folder); // made where absent

    [[nodiscard]] const std::string& lower() const noexcept { return lower_; }
    [[nodiscard]] const std::string& upper() const noexcept { return upper_; }
    [[nodiscard]] const std::string& root() const noexcept {
        return root_;
    } // for a child: where its root is placed

private:
    std::string lower_;
    std::string upper_;
    std::string root_;
};

// A detached mount, attached at a place of the keeper's for as long as the object lives.
class attachment {
public:
    attachment(int mount, const std::string& place);
    attachment(const attachment&) = delete;
    attachment& operator=(const attachment&) = delete;
    ~attachment();

private:
    std::string place_;
};

// A tmpfs for what a throw-away cage writes. `bytes` caps it where no memory controller does; 0 = no cap of its own.
[[nodiscard]] unique_fd make_tmpfs(std::uint64_t bytes, unsigned mode = 0755);

// One layer of a cage's root: `lower` read-only with its ids shifted by `user_namespace`, and above it the directories
// `name`/upper and `name`/work in the directory `writable`, which must be attached somewhere (made where absent, owned by
// `base`). `durable` = survives a power cut.
[[nodiscard]] unique_fd make_overlay(const scratch& places, const std::filesystem::path& lower,
                                     int user_namespace, int writable, const std::string& name,
                                     std::uint32_t base, bool durable);

// A clone of the owner's directory or file behind `source` (and of the mounts in it), its ids shifted, nosuid and nodev.
// Throws with the file system's name where it cannot be idmapped.
[[nodiscard]] unique_fd make_bind(int source, int user_namespace, bool writable,
                                  const std::filesystem::path& path);

// What all cages share, made once: /dev with the six harmless devices, a /sys of plain files, and an empty directory
// that covers what must not be seen. All of them read-only, and attached in the keeper's own mount namespace below
// `folder`, since a detached mount cannot be cloned before kernel 6.15.
class shared_trees {
public:
    explicit shared_trees(const std::filesystem::path& folder);
    [[nodiscard]] unique_fd dev() const; // a clone, for one cage
    [[nodiscard]] unique_fd sys() const;
    [[nodiscard]] unique_fd empty() const;

private:
    std::string dev_;
    std::string sys_;
    std::string empty_;
    std::vector<std::unique_ptr<attachment>> attached_;
};

// A devpts instance of the cage's own, with root inside as its owner.
[[nodiscard]] unique_fd make_devpts(std::uint32_t base);
struct terminal {
    unique_fd master; // for the agent
    unique_fd slave;  // for the program
};
[[nodiscard]] terminal open_terminal(int devpts, std::uint16_t rows, std::uint16_t columns);

// The name of the file system behind fd ("ext4", "fuse"), for messages.
[[nodiscard]] std::string file_system_name(int fd);

} // namespace pinfold
