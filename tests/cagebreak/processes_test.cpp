// boundary.md, "After the cage": processes end, are reaped, and leave nothing behind.
#include "cagebreak/owner_place.hpp"
#include "support/catch.hpp"
#include "support/time_scale.hpp"

#include <csignal>
#include <set>
#include <thread>

namespace pinfold::test {
namespace {

using namespace std::chrono_literals;

TEST_CASE("5,000 orphans leave no zombie, and fork still works (B45)") {
    cage_machine& machine = cage_machine::here();
    const probed first = machine.probe(sealed(), {"orphans", "5000"});
    CAPTURE(first.output);
    CHECK(first.output == "orphans ok zombies=0\n");

    // From a second entry, with a double fork and sessions of their own.
    const owner_place project;
    const std::string program = project.probe();
    const auto cage = machine.start(sealed().with_project(project.path(), project.owner()),
                                    {"sleep", "1000"});
    CHECK(cage->enter({program, "orphans", "2000"}).output == "orphans ok zombies=0\n");
    REQUIRE(cage->enter(shell("for i in 1 2 3 4 5 6 7 8 9; do (setsid sh -c '(sleep 0.01 &) &' &); done; "
                              "sleep 1; ! grep -l '^State:.Z' /proc/[0-9]*/status"))
                .status == 0);
    CHECK(processes_of(*cage).size() == 2);
}

TEST_CASE("who reaps for itself gets its own children's ends (B45)") {
    const probed twin = cage_machine::here().run(
        sealed(), python("import os,ctypes\nctypes.CDLL(None).prctl(36,1,0,0,0)\n"
                         "if os.fork()==0:\n  if os.fork()==0: os._exit(7)\n  os._exit(0)\n"
                         "print(sorted(os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(2)))"));
    CHECK(twin.output == "[0, 7]\n");
}

TEST_CASE("every exit code and every signal comes through") {
    cage_machine& machine = cage_machine::here();
    for (const int code : {0, 1, 2, 100, 124, 125, 126, 127, 128, 137, 254, 255})
        CHECK(machine.run(sealed(), shell("exit " + std::to_string(code))).status == code);
    for (const int number : {SIGHUP, SIGINT, SIGABRT, SIGKILL, SIGSEGV, SIGTERM, SIGRTMIN, 64}) {
        CAPTURE(number);
        CHECK(machine.run(sealed(), shell(fmt::format("kill -{} $$; sleep 10", number))).status ==
              128 + number);
    }
    const auto cage = machine.start(sealed(), {"sleep", "1000"});
    for (int code = 0; code < 256; ++code)
        CHECK(cage->enter(shell("exit " + std::to_string(code))).status == code);
    for (int number = 1; number <= 64; ++number) {
        if (number == SIGCHLD || number == SIGCONT || number == SIGURG || number == SIGWINCH ||
            (number >= SIGSTOP && number <= SIGTTOU) || number == 32 || number == 33)
            continue; // ignored, stopping, or the C library's own
        CAPTURE(number);
        CHECK(cage->enter(shell(fmt::format("kill -{} $$; sleep 10", number))).status == 128 + number);
    }
}

TEST_CASE("SIGTERM reaches the first program, which may answer it") {
    cage_machine& machine = cage_machine::here();
    const auto plain = machine.start(sealed(), {"sleep", "1000"});
    REQUIRE(plain->built().program().signal(SIGTERM));
    CHECK(plain->finish(5s).status == 128 + SIGTERM);

    const auto answering = machine.start(
        sealed(),
        shell("trap 'echo bye; exit 7' TERM; echo ready >/tmp/ready; while :; do sleep 0.05; done"));
    REQUIRE(answering->enter(shell("until test -e /tmp/ready; do sleep 0.05; done")).status == 0);
    REQUIRE(answering->built().program().signal(SIGTERM));
    const probed ended = answering->finish(5s);
    CHECK(ended.status == 7);
    CHECK(ended.output == "bye\n");
}

TEST_CASE("a daemon that was left behind dies with its cage, also one that ignores SIGTERM") {
    cage_machine& machine = cage_machine::here();
    for (const char* trap : {"", "trap '' TERM HUP INT; "}) {
        const auto cage = machine.start(
            sealed(),
            shell(std::string(trap) + "setsid sleep 1000 </dev/null >/dev/null 2>&1 & sleep 0.5; exit 3"));
        std::this_thread::sleep_for(300ms);
        CHECK(processes_of(*cage).size() >= 3); // it is there
        const auto status = cage->built().init().reap_within(8s);
        REQUIRE(status);
        CHECK(status->code == 3);
        CHECK(processes_of(*cage).empty());
    }
    // What entered ends with the cage too.
    const auto cage = machine.start(sealed(), {"sleep", "0.7"});
    CHECK(cage->enter({"sleep", "1000"}).status == 128 + SIGTERM);
}

TEST_CASE("a cage is ended whatever its processes do about signals") {
    cage_machine& machine = cage_machine::here();
    const auto cage = machine.start(sealed(),
                                    python("import os,signal,time\nfor s in range(1,32):\n  try: "
                                           "signal.signal(s,signal.SIG_IGN)\n  except OSError: pass\n"
                                           "for i in range(20):\n  if os.fork()==0: "
                                           "break\nos.kill(os.getpid(),signal.SIGSTOP)\ntime.sleep(1000)"));
    constexpr std::size_t all = 22; // pid 1, the first one, and its twenty
    for (int i = 0; i < 400 && processes_of(*cage).size() < all; ++i) std::this_thread::sleep_for(50ms);
    const std::vector<pid_t> inside = processes_of(*cage);
    CHECK(inside.size() == all);
    CHECK(cage->built().destroy());
    for (const pid_t pid : inside) CHECK_FALSE(std::filesystem::exists(fmt::format("/proc/{}/cgroup", pid)));
}

// What the keeper and the kernel hold on behalf of cages.
struct held {
    std::size_t descriptors;
    std::size_t mounts;
    std::size_t pins;
    std::vector<std::string> cgroups;
};
void check_same(const held& before, const held& after) {
    CHECK(after.descriptors == before.descriptors);
    CHECK(after.mounts == before.mounts);
    CHECK(after.pins == before.pins);
    CHECK(after.cgroups == before.cgroups);
}
std::size_t count_entries(const std::filesystem::path& folder) {
    return static_cast<std::size_t>(std::distance(std::filesystem::recursive_directory_iterator(folder), {}));
}
held holdings(cage_machine& machine) {
    const std::filesystem::path fds = "/proc/self/fd";
    return {static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(fds), {})),
            lines_of(text_of("/proc/self/mountinfo")).size(), count_entries(machine.pins()),
            machine.tools().cgroups.children()};
}

TEST_CASE("many cages leave no descriptor, mount, pin, cgroup, namespace or process behind (B49)") {
    cage_machine& machine = cage_machine::here();
    const owner_place project;
    const cage_kind kind = sealed().with_project(project.path(), project.owner());
    (void)machine.run(kind,
                      {"true"}); // what is kept from the first cage on: the image, the project's namespace
    const held before = holdings(machine);
    std::set<std::string> spaces;
    for (int i = 0; i < (time_scale() > 1 ? 10 : 50); ++i) { // fewer on a machine that is slow
        const auto cage = machine.start(i % 2 == 0 ? kind : caged(), {"sleep", "1000"});
        const std::vector<pid_t> inside = processes_of(*cage);
        REQUIRE(inside.size() == 2);
        for (const char* space : {"net", "mnt", "pid", "user"})
            spaces.insert(
                std::filesystem::read_symlink(fmt::format("/proc/{}/ns/{}", inside[0], space)).native());
        if (i == 0) {
            const held during = holdings(machine); // the twin: a cage holds something
            CHECK(during.descriptors > before.descriptors);
            CHECK(during.pins > before.pins);
            CHECK(during.cgroups.size() == before.cgroups.size() + 1);
            CHECK(during.mounts == before.mounts); // and no mount of it is ever the keeper's
        }
        if (i % 5 == 0) CHECK(cage->enter({"true"}).status == 0);
        CHECK(cage->built().destroy());
        for (const pid_t pid : inside)
            CHECK_FALSE(std::filesystem::exists(fmt::format("/proc/{}/cgroup", pid)));
    }
    check_same(before, holdings(machine));
    for (const auto& fd : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        CHECK_FALSE(spaces.contains(std::filesystem::read_symlink(fd.path(), gone).native()));
    }
}

TEST_CASE("a cage that could not be built or started leaves nothing behind (B49)") {
    cage_machine& machine = cage_machine::here();
    const owner_place project;
    const cage_kind kind = sealed().with_project(project.path(), project.owner());
    (void)machine.run(kind, {"true"});
    std::filesystem::create_symlink("/tmp", project.path() / "link");
    const held before = holdings(machine);
    for (int i = 0; i < 5; ++i) {
        CHECK_THROWS(machine.run(kind, {"no-such-program"}));
        CHECK_THROWS(
            machine.run(kind.with_bind({project.path(), project.path() / "link/x", false}), {"true"}));
        CHECK_THROWS(machine.run(kind.without<map_ids>(), {"true"}));
    }
    check_same(before, holdings(machine));
    CHECK(machine.run(kind, {"true"}).status == 0);
}

} // namespace
} // namespace pinfold::test
