// What is pinned outlives the keeper: cages stay guarded, and the next keeper takes them over.
#include "cage/guards.hpp"
#include "cagebreak/guard_world.hpp"
#include "spec/cage_spec.hpp"

#include <bpf/bpf.h>
#include <optional>
#include <pinfold/policy.h>

using namespace pinfold;
using namespace pinfold::test;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr std::uint64_t cage_id = 0x2a;

struct place {
    scratch_pins pins;
    scratch_cgroup anchor;
    scratch_cgroup cgroup;
    sinks world;
    std::optional<guards> keeper; // ends and starts again

    place() { start(); }
    place(const place&) = delete;
    place& operator=(const place&) = delete;
    ~place() {
        if (keeper) keeper->detach(cage_id);
    }
    void start() { keeper.emplace(pins.path(), anchor.fd()); }
    void attach_all() {
        for (const guard one : all_guards) keeper->attach(one, cgroup.fd(), cage_id);
    }
    int try_local() {
        return run_in(cgroup, world.space(), [] { return ways.front().send("10.1.2.3", sink_port); });
    }
};

std::uint32_t program_id(const std::filesystem::path& pin) {
    const unique_fd program(bpf_obj_get(pin.c_str()));
    bpf_prog_info info = {};
    std::uint32_t size = sizeof info;
    check_negative(bpf_obj_get_info_by_fd(program.get(), &info, &size), "look at {}", pin.string());
    return info.id;
}

// The kernel lets go of an unpinned link a moment later, after an RCU grace period.
int once_unpinned(place& here) {
    int result = here.try_local();
    for (int tries = 0; result != 0 && tries < 200; ++tries) {
        ::usleep(10'000);
        result = here.try_local();
    }
    return result;
}

} // namespace

TEST_CASE("a cage stays guarded when the keeper ends, and the next one goes on with its policy") {
    place here;
    here.attach_all();
    here.keeper->write_policy(here.cgroup.fd(), cage_id, cage_mode::sealed);
    const std::uint32_t before = program_id(here.pins.path() / "progs/cage_connect4");

    here.keeper.reset();
    CHECK(here.try_local() == EACCES);
    here.start();
    CHECK(program_id(here.pins.path() / "progs/cage_connect4") == before); // taken over, not loaded twice
    CHECK(here.keeper->pinned() == std::vector{cage_id});
    CHECK(here.keeper->complete(cage_id));
    CHECK(here.try_local() == EACCES);
    CHECK(here.world.arrived() == 0);
    here.keeper->write_policy(here.cgroup.fd(), cage_id, cage_mode::caged);
    CHECK(here.try_local() == 0);
    CHECK(here.world.arrived() == 1);
}

TEST_CASE("a keeper that ends before it wrote a policy leaves a cage that can do nothing") {
    place here;
    here.attach_all();
    here.keeper.reset();
    CHECK(here.try_local() == EACCES);
    CHECK(here.world.arrived() == 0);
    here.start();
    CHECK(here.keeper->complete(cage_id));
}

TEST_CASE("a cage with a guard missing is pinned but not complete, and detaching leaves nothing") {
    place here;
    here.keeper->attach(guard::destinations, here.cgroup.fd(), cage_id);
    CHECK(here.keeper->pinned() == std::vector{cage_id});
    CHECK_FALSE(here.keeper->complete(cage_id));
    here.keeper->attach(guard::sockets, here.cgroup.fd(), cage_id);
    CHECK_FALSE(here.keeper->complete(cage_id));
    here.keeper->attach(guard::options, here.cgroup.fd(), cage_id);
    CHECK(here.keeper->complete(cage_id));
    here.keeper->detach(cage_id);
    here.keeper->detach(cage_id); // no error: it may have been interrupted
    CHECK(here.keeper->pinned().empty());
    CHECK_FALSE(std::filesystem::exists(here.pins.path() / "cages/000000000000002a"));
    CHECK(once_unpinned(here) == 0); // why a cage is empty before it is detached
    CHECK(here.world.arrived() == 1);
}

TEST_CASE("a guard that cannot be pinned is not attached either") {
    place here;
    const auto folder = here.pins.path() / "cages/000000000000002a";
    std::filesystem::create_directories(folder);
    std::filesystem::create_directory(folder / "sendmsg4"); // in the way of the third link of four
    CHECK_THROWS_AS(here.keeper->attach(guard::destinations, here.cgroup.fd(), cage_id), std::system_error);
    CHECK_FALSE(std::filesystem::exists(folder / "connect4"));
    CHECK(once_unpinned(here) == 0);
    std::filesystem::remove(folder / "sendmsg4");
    here.keeper->attach(guard::destinations, here.cgroup.fd(), cage_id);
    CHECK(here.try_local() == EACCES);
}

TEST_CASE("a program of another version is replaced, also under a cage that is alive") {
    place here;
    here.attach_all();
    here.keeper->write_policy(here.cgroup.fd(), cage_id, cage_mode::sealed);
    const auto pin = here.pins.path() / "progs/cage_connect4";
    here.keeper.reset();
    { // any other program will do for an old version: its instructions differ
        const unique_fd other(bpf_obj_get((here.pins.path() / "progs/cage_sendmsg4").c_str()));
        std::filesystem::remove(pin);
        check_negative(bpf_obj_pin(other.get(), pin.c_str()), "pin another program");
    }
    const std::uint32_t old = program_id(pin);
    here.start();
    CHECK(program_id(pin) != old);
    CHECK(here.try_local() == EACCES);
    here.keeper->write_policy(here.cgroup.fd(), cage_id,
                              cage_mode::caged); // the links' policy is the same entry still
    CHECK(here.try_local() == 0);
}

TEST_CASE("maps of another layout are replaced when no cage lives, and refused when one does") {
    place here;
    const auto pin = here.pins.path() / "maps/cage_policy";
    const auto make_old = [&] {
        const unique_fd other(check_negative(
            bpf_map_create(BPF_MAP_TYPE_CGROUP_STORAGE, "cage_policy", 8, 32, 0, nullptr), "make a map"));
        std::filesystem::remove(pin);
        check_negative(bpf_obj_pin(other.get(), pin.c_str()), "pin another map");
    };
    here.attach_all();
    here.keeper.reset();
    make_old();
    CHECK_THROWS_WITH(here.start(),
                      ContainsSubstring("another version") && ContainsSubstring("cages are alive"));
    CHECK(here.try_local() == EACCES); // and the cage is as it was
    for (const auto& link : std::filesystem::directory_iterator(here.pins.path() / "cages/000000000000002a"))
        std::filesystem::remove(link.path());
    here.start();
    here.attach_all();
    here.keeper->write_policy(here.cgroup.fd(), cage_id, cage_mode::caged);
    CHECK(here.try_local() == 0);
}

TEST_CASE("local prefixes that an earlier keeper left are known to the next") {
    place here;
    here.attach_all();
    here.keeper->write_policy(here.cgroup.fd(), cage_id, cage_mode::sealed);
    const auto public_one = [&] {
        return run_in(here.cgroup, here.world.space(),
                      [] { return ways.front().send("93.184.216.34", sink_port); });
    };
    const local_prefix prefix = {.family = AF_INET, .length = 16, .machine = false, .address = {93, 184}};
    here.keeper->set_local_prefixes(std::span(&prefix, 1));
    CHECK(public_one() == EACCES);
    here.keeper.reset();
    here.start();
    CHECK(public_one() == EACCES);
    here.keeper->set_local_prefixes({}); // what is no longer so goes, though this keeper did not add it
    CHECK(public_one() == 0);
}

TEST_CASE("bpftool shows a cage's guards and its policy by name") {
    place here;
    here.attach_all();
    here.keeper->write_policy(here.cgroup.fd(), cage_id, cage_mode::sealed);
    const local_prefix prefix = {.family = AF_INET, .length = 16, .machine = false, .address = {93, 184}};
    here.keeper->set_local_prefixes(std::span(&prefix, 1));

    const std::string tree = output_of({"bpftool", "cgroup", "tree", here.cgroup.path().string()});
    for (const char* name :
         {"cage_connect4", "cage_connect6", "cage_sendmsg4", "cage_sendmsg6", "cage_socket", "cage_option"}) {
        CHECK_THAT(tree, ContainsSubstring(name));
        CHECK_THAT(
            output_of({"bpftool", "prog", "show", "pinned", (here.pins.path() / "progs" / name).string()}),
            ContainsSubstring(std::string("name ") + name));
    }
    const auto map = [&](const char* name) {
        return output_of({"bpftool", "map", "dump", "pinned", (here.pins.path() / "maps" / name).string()});
    };
    const std::string policy = map("cage_policy");
    CHECK_THAT(policy, ContainsSubstring("\"cage\": 42"));
    CHECK_THAT(policy, ContainsSubstring("PINFOLD_SEALED"));
    CHECK_THAT(map("local4"), ContainsSubstring("PINFOLD_RULE_ROUTE"));
    CHECK_THAT(output_of({"bpftool", "link", "show", "pinned",
                          (here.pins.path() / "cages/000000000000002a/connect4").string()}),
               ContainsSubstring("inet4_connect"));
}
