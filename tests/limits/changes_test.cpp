// Limits of a cage that runs are raised and lowered, through the real keeper.

#include "base/error.hpp"
#include "base/file.hpp"
#include "crash/keeper_process.hpp"
#include "limits/limited.hpp"
#include "support/agent_fixture.hpp"
#include "support/catch.hpp"

#include <csignal>

namespace pinfold::test {
namespace {

using Catch::Matchers::ContainsSubstring;

// A keeper with one cage in it that sleeps; what is tried runs beside that.
class kept_cage {
public:
    explicit kept_cage(limits_spec limits) : keeper_(home_.start()), link_(home_.socket()) {
        cage_spec spec = sleeping_spec("heron");
        spec.limits = limits;
        made_ = link_.ask(wire::make{spec});
        if (const auto* failed = std::get_if<wire::failed>(&made_.body)) fail("{}", failed->text);
        cage_ = std::get<wire::made>(made_.body).cage;
        need_ok(wire::start{.cage = cage_});
    }
    void change(const limits_spec& limits) { need_ok(wire::set_limits{.cage = cage_, .limits = limits}); }
    wire::ended run(std::vector<std::string> argv) { return link_.end_of(cage_, begin(std::move(argv))); }
    std::uint32_t begin(std::vector<std::string> argv) { // the number of its process
        wire::message& entered = entered_.emplace_back(link_.ask(wire::exec{
            .cage = cage_,
            .command = {.argv = std::move(argv), .environment = {"PATH=/usr/bin:/bin"}, .directory = "/"}}));
        if (const auto* failed = std::get_if<wire::failed>(&entered.body)) fail("{}", failed->text);
        return std::get<wire::entered>(entered.body).process;
    }
    [[nodiscard]] cgroup group() const {
        const unique_fd above = open_directory(home_.cgroup_folder());
        return cgroup::open(above.get(), cage_name(cage_));
    }

private:
    void need_ok(wire::body body) {
        const wire::message answer = link_.ask(std::move(body));
        if (const auto* failed = std::get_if<wire::failed>(&answer.body)) fail("{}", failed->text);
    }

    keeper_home home_;
    process keeper_;
    keeper_link link_;
    std::vector<wire::message> entered_; // they hold the programs' streams open
    wire::message made_;                 // holds the ends of the cage's network and streams open
    std::uint64_t cage_ = 0;
};

TEST_CASE("more memory is had as soon as the limit is raised, and less once it is lowered") {
    need_controllers();
    const limits_spec small{.memory_bytes = 64 * mebibyte}, large{.memory_bytes = 256 * mebibyte};
    const std::vector<std::string> hog = memory_hog(128 * mebibyte);
    kept_cage cage(small);
    const wire::ended killed = cage.run(hog);
    CHECK(killed.status == 128 + SIGKILL);
    CHECK(killed.memory_kill);
    CHECK(killed.memory_kills == 1);
    CHECK(killed.memory_victim == "python3");
    CHECK(killed.memory_limit == small.memory_bytes);
    CHECK(killed.memory_peak > small.memory_bytes / 2);
    CHECK(killed.memory_peak <= small.memory_bytes);

    cage.change(large);
    const wire::ended held = cage.run(hog);
    CHECK(held.status == 0);
    CHECK_FALSE(held.memory_kill);
    CHECK(held.memory_limit == large.memory_bytes);

    cage.change(small);
    CHECK(cage.run(hog).memory_kill);
    CHECK(cage.run({"true"}).status == 0); // the cage itself goes on
}

// The kernel would reach such a limit by killing, and not only the program that is too large.
TEST_CASE("a limit below what programs hold is refused, and nothing in the cage is killed or changed") {
    need_controllers();
    const limits_spec large{.memory_bytes = 256 * mebibyte}, small{.memory_bytes = 64 * mebibyte};
    kept_cage cage(large);
    const auto kills = [&] { return cage.group().read_key("memory.events", "oom_kill").value_or(0); };
    const std::string script = "b = bytearray(128 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\n"
                               "import os, time\nif os.fork() == 0: time.sleep(600)\nos._exit(0)";
    CHECK(cage.run({"/usr/bin/python3", "-c", script}).status == 0); // its child holds the memory
    CHECK_THROWS_WITH(cage.change(small),
                      ContainsSubstring("its programs hold") && ContainsSubstring("heron"));
    CHECK(cage.group().read_number("memory.max") == large.memory_bytes);
    CHECK(kills() == 0);
    // Once they are gone it is taken.
    CHECK(cage.run({"pkill", "-9", "python3"}).status == 0);
    CHECK(eventually(
        [&] { return cage.group().read_number("memory.current").value_or(0) < small.memory_bytes; }));
    cage.change(small);
    CHECK(cage.group().read_number("memory.max") == small.memory_bytes);
    CHECK(kills() == 0);
}

TEST_CASE("pages of files do not keep a limit up: they are given back first") {
    need_controllers();
    kept_cage cage({.memory_bytes = 256 * mebibyte});
    CHECK(cage.run({"sh", "-c", "cat /usr/bin/* /usr/lib/*/* >/dev/null 2>&1; true"}).status == 0);
    cage.change({.memory_bytes = 32 * mebibyte});
    CHECK(cage.group().read_number("memory.max") == 32 * mebibyte);
    CHECK(cage.run({"true"}).status == 0);
}

TEST_CASE("the number of processes is raised and lowered on a running cage") {
    need_controllers();
    const std::string count = "import os, sys, time\nmade = []\n"
                              "for i in range(64):\n"
                              "    try: child = os.fork()\n"
                              "    except OSError: sys.exit(3)\n"
                              "    if child == 0:\n"
                              "        time.sleep(600)\n"
                              "    made.append(child)\n";
    // Killed with its whole group afterwards, so that the next one begins with as many.
    const std::vector<std::string> fork64{
        "sh", "-c", "setsid /usr/bin/python3 -c \"$0\"; code=$?; pkill -9 python3; exit $code", count};
    kept_cage cage({.processes = 32});
    // They count until the cage's pid 1 has reaped them.
    const auto all_gone = [&] { return cage.group().read_number("pids.current").value_or(0) < 8; };
    CHECK(cage.run(fork64).status == 3);
    CHECK(eventually(all_gone));
    cage.change({.processes = 128});
    CHECK(cage.run(fork64).status == 0);
    CHECK(eventually(all_gone));
    cage.change({.processes = 32});
    CHECK(cage.run(fork64).status == 3);
}

TEST_CASE("a cage that is full says so to whoever starts one more program, and takes it once there is room") {
    need_controllers();
    kept_cage cage({.processes = 16});
    const std::string fill = "import os, time\n"
                             "while True:\n"
                             "    try:\n"
                             "        if os.fork() == 0: time.sleep(600)\n"
                             "    except OSError: time.sleep(600)\n";
    cage.begin({"/usr/bin/python3", "-c", fill});
    CHECK(eventually([&] { return cage.group().read_number("pids.current").value_or(0) == 16; }));
    CHECK_THROWS_WITH(cage.run({"true"}), ContainsSubstring("as many processes as its limit allows"));
    cage.change({.processes = 32});
    CHECK(cage.run({"true"}).status == 0);
}

TEST_CASE("the share of the CPUs is what the kernel was told last") {
    need_controllers();
    kept_cage cage({.cpu_percent = 50});
    CHECK(cage.group().read("cpu.max") == "50000 100000\n");
    cage.change({.cpu_percent = 150});
    CHECK(cage.group().read("cpu.max") == "150000 100000\n");
    cage.change({.cpu_percent = 20});
    CHECK(cage.group().read("cpu.max") == "20000 100000\n");
}

} // namespace
} // namespace pinfold::test
