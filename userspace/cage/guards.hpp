// The guards: eBPF programs loaded once and pinned, and one set of pinned links for each cage.
#pragma once

#include "base/unique_fd.hpp"
#include "spec/guard.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

struct pinfold_denial;

namespace pinfold {

enum class cage_mode : std::uint8_t;

// An address prefix that is local to this machine, as a guard's trie holds it. Network byte order.
struct local_prefix {
    std::uint8_t family = 0; // AF_INET or AF_INET6
    std::uint8_t length = 0; // 0 to 32 or 128
    bool machine = false;    // an address of the machine itself, else a more specific route
    std::uint8_t address[16] = {};

    auto operator<=>(const local_prefix&) const = default;
};

// What the tries say of an address: enum pinfold_rule, 0 = not local, and the longest prefix that holds it.
struct local_answer {
    std::uint32_t rule = 0;
    local_prefix prefix; // family 0 = none
};

class guards {
public:
    // Loads the programs, or takes over the ones an earlier keeper pinned below `pins` (a folder of a bpffs, made
    // where absent), and attaches one of each to `anchor`, a cgroup that stays: without it the first attach and the
    // last detach on the machine cost a millisecond each. Throws std::system_error.
    guards(const std::filesystem::path& pins, int anchor_cgroup);
    guards(guards&&) noexcept;
    guards(const guards&) = delete;
    guards& operator=(const guards&) = delete;
    guards& operator=(guards&&) = delete;
    ~guards(); // the pins stay: cages stay guarded when the keeper ends

    // Attaches one guard to a cage's cgroup and pins its links below cages/<cage>/. Denies everything until a policy
    // is written. Strong guarantee: on failure nothing stays attached.
    void attach(guard which, int cgroup, std::uint64_t cage);

    // Writes the policy of a cage, atomically; its guards must be attached (ENOENT otherwise).
    void write_policy(int cgroup, std::uint64_t cage, cage_mode mode);

    // The mode that the guards of this cgroup read now, enum pinfold_mode: PINFOLD_DENY_ALL where nothing was written.
    [[nodiscard]] std::uint32_t mode_of(int cgroup) const;
    // The programs, by name, that should be attached to this cgroup and are not: asked of the kernel, since whoever is root
    // can detach a link. Throws std::system_error.
    [[nodiscard]] std::vector<std::string> missing(int cgroup) const;
    // `address` has its full length.
    [[nodiscard]] local_answer find_local(const local_prefix& address) const;

    // Unpins and so detaches. Only for a cgroup that is empty: the next connect of a living cage would succeed.
    void detach(std::uint64_t cage);

    // The cages that have pins, complete or not.
    [[nodiscard]] std::vector<std::uint64_t> pinned() const;
    // Whether every guard of the cage is pinned.
    [[nodiscard]] bool complete(std::uint64_t cage) const;

    // Makes the tries hold exactly these prefixes: new ones are added before old ones are removed.
    void set_local_prefixes(std::span<const local_prefix> wanted);

    // Denials: poll this fd for input, then take. `take` returns how many were handed over.
    [[nodiscard]] int denials_fd() const;
    int take_denials(const std::function<void(const pinfold_denial&)>& each);
    // How many denials found no room in the ring since the programs were loaded. They were refused all the same.
    [[nodiscard]] std::uint64_t denials_lost() const;

private:
    struct parts;
    std::unique_ptr<parts> parts_;
};

} // namespace pinfold
