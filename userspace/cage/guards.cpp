#include "cage/guards.hpp"

#include "base/error.hpp"
#include "cage/bpf.hpp"
#include "cage/guard_programs.hpp"
#include "cage/local_tries.hpp"
#include "cage/verdict.hpp"
#include "spec/cage_spec.hpp"

#include <algorithm>
#include <array>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cstring>
#include <exception>
#include <pinfold/denial.h>
#include <pinfold/policy.h>
#include <sys/stat.h>

namespace pinfold {
namespace {

struct free_ring {
    void operator()(ring_buffer* ring) const { ring_buffer__free(ring); }
};

} // namespace

struct guards::parts {
    parts(const std::filesystem::path& where, int anchor_cgroup);

    std::filesystem::path pins;
    guard_programs programs;
    local_tries tries;
    std::vector<unique_fd> anchors;
    std::unique_ptr<ring_buffer, free_ring> ring;
    // Of the take_denials() that is under way.
    const std::function<void(const pinfold_denial&)>* each = nullptr;
    std::exception_ptr error;

    static int take_one(void* self, void* record, std::size_t size);
};

guards::parts::parts(const std::filesystem::path& where, int anchor_cgroup)
    : pins(where),
      programs(where),
      tries(programs.map("local4"), programs.map("local6")),
      ring(ring_buffer__new(programs.map("denials"), take_one, this, nullptr)) {
    if (!ring) fail_errno(errno, "open the ring of denials");
    for (const guard_hook& hook : guard_hooks) {
        anchors.push_back(bpf::create_link(programs.program(hook), anchor_cgroup, hook.attach_type));
        if (!anchors.back()) fail_errno(errno, "attach {} to the anchor cgroup", hook.program);
    }
}

// Called by libbpf, which is C: no exception may pass through it.
int guards::parts::take_one(void* self, void* record, std::size_t size) {
    auto& own = *static_cast<parts*>(self);
    pinfold_denial denial = {};
    std::memcpy(&denial, record, std::min(size, sizeof denial));
    try {
        (*own.each)(denial);
        return 0;
    } catch (...) {
        own.error = std::current_exception();
        return -ECANCELED; // the rest stays in the ring
    }
}

guards::guards(const std::filesystem::path& pins, int anchor_cgroup)
    : parts_(std::make_unique<parts>(pins, anchor_cgroup)) {}
guards::guards(guards&&) noexcept = default;
guards::~guards() = default;

void guards::attach(guard which, int cgroup, std::uint64_t cage) {
    const auto folder = bpf::cage_folder(parts_->pins, cage);
    bpf::make_pin_folder(folder);
    std::vector<std::filesystem::path> made;
    try {
        for (const guard_hook& hook : guard_hooks) {
            if (hook.which != which) continue;
            const unique_fd link = bpf::create_link(parts_->programs.program(hook), cgroup, hook.attach_type);
            if (!link)
                fail_errno(errno, "attach guard {} ({}) to cage {}", to_string(which), hook.program, cage);
            bpf::pin(link.get(), folder / hook.name);
            made.push_back(folder / hook.name);
        }
    } catch (...) {
        for (const auto& pin : made) bpf::unpin(pin);
        bpf::remove_if_empty(folder);
        throw;
    }
}

void guards::write_policy(int cgroup, std::uint64_t cage, cage_mode mode) {
    struct stat directory = {};
    check(::fstat(cgroup, &directory), "look at the cgroup of cage {}", cage);
    const std::uint64_t id = directory.st_ino; // the id of a cgroup is its inode number
    const pinfold_policy policy = {
        .cage = cage, .mode = static_cast<pinfold_mode>(policy_mode(mode)), .reserved = 0};
    check_negative(bpf_map_update_elem(parts_->programs.map("cage_policy"), &id, &policy, BPF_EXIST),
                   "write the policy of cage {} (its guards must be attached first)", cage);
}

std::uint32_t guards::mode_of(int cgroup) const {
    struct stat directory = {};
    check(::fstat(cgroup, &directory), "look at the cgroup of a cage");
    const std::uint64_t id = directory.st_ino;
    pinfold_policy policy = {};
    if (bpf_map_lookup_elem(parts_->programs.map("cage_policy"), &id, &policy) != 0) return PINFOLD_DENY_ALL;
    return policy.mode;
}

std::vector<std::string> guards::missing(int cgroup) const {
    std::vector<std::string> names;
    for (const guard_hook& hook : guard_hooks) {
        bpf_prog_info info = {};
        std::uint32_t size = sizeof info;
        check_negative(bpf_obj_get_info_by_fd(parts_->programs.program(hook), &info, &size), "look at {}",
                       hook.program);
        std::array<std::uint32_t, 64> attached{}; // the kernel's own limit for one cgroup and hook
        auto count = static_cast<std::uint32_t>(attached.size());
        check_negative(bpf_prog_query(cgroup, static_cast<bpf_attach_type>(hook.attach_type), 0, nullptr,
                                      attached.data(), &count),
                       "ask what is attached to a cgroup for {}", hook.program);
        const auto present = std::span(attached).first(count);
        if (std::ranges::find(present, info.id) == present.end())
            names.push_back(fmt::format("{} ({})", to_string(hook.which), hook.name));
    }
    return names;
}

local_answer guards::find_local(const local_prefix& address) const {
    return parts_->tries.find(address);
}

void guards::detach(std::uint64_t cage) {
    const auto folder = bpf::cage_folder(parts_->pins, cage);
    for (const guard_hook& hook : guard_hooks) bpf::unpin(folder / hook.name);
    bpf::remove_if_empty(folder);
}

std::vector<std::uint64_t> guards::pinned() const {
    return pinned_cages(parts_->pins);
}

bool guards::complete(std::uint64_t cage) const {
    const auto folder = bpf::cage_folder(parts_->pins, cage);
    return std::ranges::all_of(guard_hooks, [&](const guard_hook& hook) {
        std::error_code ignored;
        return std::filesystem::exists(folder / hook.name, ignored);
    });
}

void guards::set_local_prefixes(std::span<const local_prefix> wanted) {
    parts_->tries.set(wanted);
}

int guards::denials_fd() const {
    return ring_buffer__epoll_fd(parts_->ring.get());
}

int guards::take_denials(const std::function<void(const pinfold_denial&)>& each) {
    int taken = 0;
    const auto counting = std::function<void(const pinfold_denial&)>([&](const pinfold_denial& denial) {
        ++taken;
        each(denial);
    });
    parts_->each = &counting;
    const int result = ring_buffer__consume(parts_->ring.get());
    parts_->each = nullptr;
    if (parts_->error) std::rethrow_exception(std::exchange(parts_->error, nullptr));
    check_negative(result, "read the ring of denials");
    return taken;
}

std::uint64_t guards::denials_lost() const {
    const std::uint32_t first = 0;
    std::uint64_t lost = 0;
    check_negative(bpf_map_lookup_elem(parts_->programs.map("denials_lost"), &first, &lost),
                   "read how many denials were lost");
    return lost;
}

} // namespace pinfold
