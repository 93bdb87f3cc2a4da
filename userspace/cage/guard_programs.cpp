#include "cage/guard_programs.hpp"

#include "base/error.hpp"
#include "cage/bpf.hpp"
#include "destinations.skel.h"
#include "options.skel.h"
#include "sockets.skel.h"

#include <algorithm>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <spdlog/spdlog.h>

namespace pinfold {
namespace {

struct close_object {
    void operator()(bpf_object* object) const { bpf_object__close(object); }
};
using object_ptr = std::unique_ptr<bpf_object, close_object>;

// The compiled guards, as they are embedded in this program.
std::vector<object_ptr> open_objects() {
    std::vector<object_ptr> objects;
    for (const auto bytes : {destinations_bpf__elf_bytes, sockets_bpf__elf_bytes, options_bpf__elf_bytes}) {
        std::size_t size = 0;
        const void* elf = bytes(&size);
        objects.emplace_back(bpf_object__open_mem(elf, size, nullptr));
        if (!objects.back()) fail_errno(errno, "open an embedded guard");
    }
    return objects;
}

template <typename Each>
void for_each_map(const bpf_object* object, Each each) {
    for (bpf_map* map = bpf_object__next_map(object, nullptr); map; map = bpf_object__next_map(object, map))
        each(map);
}

template <typename Each>
void for_each_program(bpf_object* object, Each each) {
    for (bpf_program* program = bpf_object__next_program(object, nullptr); program;
         program = bpf_object__next_program(object, program))
        each(program);
}

unique_fd own_copy(int fd, std::string_view name) {
    return unique_fd(check(::fcntl(fd, F_DUPFD_CLOEXEC, 3), "keep {} open", name));
}

// Empty where nothing is pinned.
unique_fd open_pin(const std::filesystem::path& where) {
    const int fd = bpf_obj_get(where.c_str());
    if (fd < 0 && fd != -ENOENT) fail_errno(-fd, "open the pin {}", where.string());
    return unique_fd(fd < 0 ? -1 : fd);
}

bool same_layout(int pinned, const bpf_map* wanted) {
    bpf_map_info info = {};
    std::uint32_t size = sizeof info;
    check_negative(bpf_obj_get_info_by_fd(pinned, &info, &size), "look at the pinned map {}",
                   bpf_map__name(wanted));
    return info.type == static_cast<std::uint32_t>(bpf_map__type(wanted)) &&
           info.key_size == bpf_map__key_size(wanted) && info.value_size == bpf_map__value_size(wanted) &&
           info.max_entries == bpf_map__max_entries(wanted) && info.map_flags == bpf_map__map_flags(wanted);
}

// A hash of the instructions, made by the kernel.
std::array<std::uint8_t, BPF_TAG_SIZE> tag_of(int program) {
    bpf_prog_info info = {};
    std::uint32_t size = sizeof info;
    check_negative(bpf_obj_get_info_by_fd(program, &info, &size), "look at a program");
    return std::to_array(info.tag);
}

bool any_guard_pinned(const std::filesystem::path& pins) {
    return std::ranges::any_of(pinned_cages(pins), [&](std::uint64_t cage) {
        return std::ranges::any_of(guard_hooks, [&](const guard_hook& hook) {
            return std::filesystem::exists(bpf::cage_folder(pins, cage) / hook.name);
        });
    });
}

void update_links(const std::filesystem::path& pins, const guard_hook& hook, int program) {
    for (const std::uint64_t cage : pinned_cages(pins)) {
        const auto where = bpf::cage_folder(pins, cage) / hook.name;
        if (const unique_fd link = open_pin(where))
            check_negative(bpf_link_update(link.get(), program, nullptr), "put the new {} into {}",
                           hook.program, where.string());
    }
}

} // namespace

std::vector<std::uint64_t> pinned_cages(const std::filesystem::path& pins) {
    std::vector<std::uint64_t> cages;
    for (const auto& entry : std::filesystem::directory_iterator(pins / "cages")) {
        const std::string name = entry.path().filename().string();
        std::uint64_t cage = 0;
        const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), cage, 16);
        if (error == std::errc{} && end == name.data() + name.size()) cages.push_back(cage);
    }
    std::ranges::sort(cages);
    return cages;
}

guard_programs::guard_programs(const std::filesystem::path& pins) {
    bpf::set_up_library();
    for (const char* folder : {"maps", "progs", "cages"}) bpf::make_pin_folder(pins / folder);
    adopt_maps(pins, any_guard_pinned(pins));
    load();
    pin_maps(pins / "maps");
    for (const guard_hook& hook : guard_hooks) pin_program(pins, hook);
}

// All the pinned maps or none of them: half of an old set would split a cage's policy from its programs.
void guard_programs::adopt_maps(const std::filesystem::path& pins, bool cages_live) {
    bool usable = true;
    for (const object_ptr& object : open_objects()) {
        for_each_map(object.get(), [&](const bpf_map* map) {
            const std::string name = bpf_map__name(map);
            if (maps_.contains(name)) return;
            unique_fd pinned = open_pin(pins / "maps" / name);
            usable = usable && pinned && same_layout(pinned.get(), map);
            maps_.emplace(name, std::move(pinned));
        });
    }
    if (usable) return;
    if (cages_live)
        fail("take over the guards pinned in {}: their maps are of another version of pinfold and cages are "
             "alive, which "
             "these programs could not guard; end those cages first, with the version that started them",
             pins.string());
    for (const auto& [name, pinned] : maps_) bpf::unpin(pins / "maps" / name);
    for (const guard_hook& hook : guard_hooks)
        bpf::unpin(pins / "progs" / hook.program); // they use the old maps
    maps_.clear();
}

void guard_programs::load() {
    for (const object_ptr& object : open_objects()) {
        // The first object that knows a map makes it, the others use the same.
        for_each_map(object.get(), [&](bpf_map* map) {
            const auto known = maps_.find(std::string_view(bpf_map__name(map)));
            if (known != maps_.end())
                check_negative(bpf_map__reuse_fd(map, known->second.get()), "share the map {}", known->first);
        });
        check_negative(bpf_object__load(object.get()),
                       "load a guard's programs ('pinfold doctor' shows what this machine "
                       "enforces; at debug level the log has the kernel's reason)");
        for_each_map(object.get(), [&](const bpf_map* map) {
            const std::string name = bpf_map__name(map);
            if (!maps_.contains(name)) maps_.emplace(name, own_copy(bpf_map__fd(map), name));
        });
        for_each_program(object.get(), [&](const bpf_program* program) {
            const std::string name = bpf_program__name(program);
            programs_.emplace(name, own_copy(bpf_program__fd(program), name));
        });
    }
}

void guard_programs::pin_maps(const std::filesystem::path& folder) {
    for (const auto& [name, map] : maps_)
        if (!open_pin(folder / name)) bpf::pin(map.get(), folder / name);
}

void guard_programs::pin_program(const std::filesystem::path& pins, const guard_hook& hook) {
    const auto where = pins / "progs" / hook.program;
    unique_fd pinned = open_pin(where);
    if (pinned && tag_of(pinned.get()) == tag_of(program(hook))) {
        programs_[hook.program] = std::move(pinned);
        return;
    }
    if (pinned) {
        spdlog::info("{} is of another version: replaced, also for cages that are alive", where.string());
        update_links(pins, hook,
                     program(hook)); // before the pin: an interrupted change is repeated at the next start
        bpf::unpin(where);
    }
    bpf::pin(program(hook), where);
}

} // namespace pinfold
