// The machine ids that root inside a cage and its users are outside: 65,536 of them that own nothing.
#pragma once

#include "base/unique_fd.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

namespace pinfold {

inline constexpr std::uint32_t ids_per_cage = 65536;

// 0x70000000 to 0x7ffdffff: above what systemd gives to containers (up to 0x6fffffff), below its foreign ids.
inline constexpr std::uint32_t first_pool_id = 0x70000000;
inline constexpr std::uint32_t last_pool_id = 0x7ffdffff;

// A user namespace that exists only for its mapping: mount_setattr(MOUNT_ATTR_IDMAP) takes it. Throws.
[[nodiscard]] unique_fd make_user_namespace(const std::string& uid_map, const std::string& gid_map);

// Hands ranges out, each to one cage at a time; the one given back last comes first, with its namespaces still warm.
class id_pool {
public:
    explicit id_pool(std::uint32_t first = first_pool_id, std::uint32_t last = last_pool_id);

    [[nodiscard]] std::uint32_t take(); // the base; throws when all are in use
    void reserve(
        std::uint32_t base); // of a cage that was there before us; throws when it is taken or not ours
    void give_back(std::uint32_t base);
    [[nodiscard]] std::size_t in_use() const noexcept { return used_.size(); }

    // Shows `owner`'s files as root's inside, and nobody else's. Kept for the next cage with this range and owner.
    [[nodiscard]] int project_namespace(std::uint32_t base, uid_t uid, gid_t gid);

private:
    struct key {
        std::uint32_t base;
        uid_t uid;
        gid_t gid;
        auto operator<=>(const key&) const = default;
    };

    std::uint32_t first_;
    std::uint32_t last_;
    std::uint32_t next_;
    std::vector<std::uint32_t> free_;
    std::set<std::uint32_t> used_;
    std::map<key, unique_fd> projects_;
};

} // namespace pinfold
