// boundary.md, "Files": what is mounted in a cage, and what each mount forbids, as the kernel says it.
#include "cagebreak/left_out.hpp"
#include "cagebreak/owner_place.hpp"
#include "support/catch.hpp"

#include <map>
#include <set>

namespace pinfold::test {
namespace {

using what_it_forbids = std::set<std::string>;

const std::map<std::string, what_it_forbids> expected{
    {"/", {"nosuid", "nodev"}},
    {"/usr", {"nosuid", "nodev"}},
    {"PROJECT", {"nosuid", "nodev"}},
    {"/dev", {"ro", "nosuid", "noexec"}}, // the one that holds devices: six of them
    {"/dev/pts", {"nosuid", "noexec"}},
    {"/dev/shm", {"nosuid", "nodev"}},
    {"/dev/mqueue", {"nosuid", "nodev", "noexec"}},
    {"/sys", {"ro", "nosuid", "nodev", "noexec"}},
    {"/proc", {"nosuid", "nodev", "noexec"}},
    {"/proc/sys", {"ro", "nosuid", "nodev", "noexec", "cover"}},
    {"/run", {"nosuid", "nodev"}},
};

// What shows the machine or acts on it; each where this kernel has it. A folder's cover is an empty one, a file's /dev/null.
const std::set<std::string> covered{
    "/proc/acpi",       "/proc/asound",        "/proc/bus",         "/proc/driver",        "/proc/fs",
    "/proc/irq",        "/proc/scsi",          "/proc/tty",         "/proc/dynamic_debug", "/proc/interrupts",
    "/proc/iomem",      "/proc/ioports",       "/proc/kallsyms",    "/proc/kcore",         "/proc/key-users",
    "/proc/keys",       "/proc/kmsg",          "/proc/kpagecgroup", "/proc/kpagecount",    "/proc/kpageflags",
    "/proc/modules",    "/proc/latency_stats", "/proc/sched_debug", "/proc/slabinfo",      "/proc/softirqs",
    "/proc/timer_list", "/proc/sysrq-trigger", "/proc/vmallocinfo", "/proc/zoneinfo"};

TEST_CASE("the mounts of a cage are these, and each forbids what it should") {
    cage_machine& machine = cage_machine::here();
    const owner_place project;
    std::map<std::string, what_it_forbids> wanted = expected;
    for (const std::string& path : covered) {
        if (!std::filesystem::exists(path)) continue;
        wanted[path] = {"ro", "nosuid", "noexec", "cover"};
        if (std::filesystem::is_directory(path)) wanted[path].insert("nodev");
    }
    for (const cage_kind& mode : {sealed(), caged()}) {
        const auto cage = machine.start(mode.with_project(project.path(), project.owner()), {"sleep", "60"});
        std::map<std::string, what_it_forbids> found;
        for (const std::string& each : left_out::mounts_of(cage->built().init().pid(), project.path())) {
            const std::size_t space = each.rfind(' ');
            found[each.substr(0, space)].insert(each.substr(space + 1));
        }
        for (const auto& [path, forbids] : wanted) {
            CAPTURE(path);
            CHECK(found[path] == forbids);
        }
        for (const auto& [path, forbids] : found) {
            CAPTURE(path);
            CHECK(wanted.contains(path)); // a mount that is new to us fails this test: decide then
        }
    }
}

TEST_CASE("a mount that lies below the project is bound along, with the same attributes") {
    cage_machine& machine = cage_machine::here();
    const owner_place project;
    const std::filesystem::path below = project.folder("below");
    const owner_place elsewhere;
    (void)elsewhere.file("file", "text");
    const planted_mount planted(elsewhere.path(), below);
    const auto cage = machine.start(sealed().with_project(project.path(), project.owner()), {"sleep", "60"});
    std::set<std::string> found;
    for (const std::string& each : left_out::mounts_of(cage->built().init().pid(), below)) found.insert(each);
    CHECK(found.contains("PROJECT nosuid"));
    CHECK(found.contains("PROJECT nodev"));
    CHECK(cage->enter({"cat", below / "file"}).output == "text"); // it is there, as the owner has it
}

} // namespace
} // namespace pinfold::test
