// memory.max and memory.swap.max: what takes more is ended, and what is ended is a program of that cage.

#include "base/error.hpp"
#include "limits/limited.hpp"

#include "base/file.hpp"
#include "support/catch.hpp"

#include <csignal>
#include <fstream>

namespace pinfold::test {
namespace {

constexpr std::uint64_t limit = 64 * mebibyte;

cage_kind limited_memory(std::uint64_t bytes, std::uint64_t swap = 0) {
    return sealed().with_limits({.memory_bytes = bytes, .swap_bytes = swap});
}

std::uint64_t killed_in(const running_cage& cage) {
    return cage.built().group().read_key("memory.events", "oom_kill").value_or(0);
}

bool has_swap() {
    std::ifstream swaps("/proc/swaps");
    std::string heading, first;
    return std::getline(swaps, heading) && std::getline(swaps, first);
}

TEST_CASE("a program that takes more memory than its cage has is killed, at the limit (B47)") {
    cage_machine& machine = limited_machine();
    const auto greedy = machine.start(limited_memory(limit), memory_hog(2 * limit));
    const probed ended = greedy->finish();
    CHECK(ended.status == 128 + SIGKILL);
    CHECK_FALSE(ended.says("held"));
    CHECK(killed_in(*greedy) == 1);
    const std::uint64_t peak = greedy->built().group().read_number("memory.peak").value_or(0);
    CHECK(peak <= limit);
    CHECK(peak > limit / 2);

    // Less than the limit is had; and without the limit, all of it.
    CHECK(machine.run(limited_memory(limit), memory_hog(limit / 4)).output == "held\n");
    CHECK(machine.run(without_limit(limited_memory(limit), "memory.max"), memory_hog(2 * limit)).output ==
          "held\n");
}

TEST_CASE("files that a cage writes into its throw-away root count as its memory (B47)") {
    cage_machine& machine = limited_machine();
    const auto write = [](std::uint64_t bytes) {
        return std::vector<std::string>{
            "sh", "-c", fmt::format("head -c {} /dev/zero >/root/file && echo written", bytes)};
    };
    const probed full = machine.run(limited_memory(limit), write(2 * limit));
    CHECK(full.status != 0);
    CHECK_FALSE(full.says("written"));
    CHECK(machine.run(limited_memory(limit), write(limit / 4)).output == "written\n");
    CHECK(machine.run(without_limit(limited_memory(limit), "memory.max"), write(2 * limit)).output ==
          "written\n");
}

TEST_CASE("one cage's end for want of memory leaves another cage and the machine as they were (B47)") {
    cage_machine& machine = limited_machine();
    const auto modest = machine.start(limited_memory(limit), {"sleep", "600"});
    CHECK(machine.run(limited_memory(limit), memory_hog(2 * limit)).status == 128 + SIGKILL);
    CHECK(modest->enter({"echo", "here"}).output == "here\n");
    CHECK(killed_in(*modest) == 0);
}

TEST_CASE("a cage has no swap but what it was given, so a limit is not stretched by it") {
    cage_machine& machine = limited_machine();
    if (!has_swap()) SKIP("swap: a file of 256 MB, turned on");
    const auto greedy = machine.start(limited_memory(limit), memory_hog(2 * limit));
    CHECK(greedy->finish().status == 128 + SIGKILL);
    CHECK(greedy->built().group().read_number("memory.swap.current") == 0);
    CHECK(machine.run(limited_memory(limit, 2 * limit), memory_hog(2 * limit)).output == "held\n");
    CHECK(
        machine.run(without_limit(limited_memory(limit), "memory.swap.max"), memory_hog(2 * limit)).output ==
        "held\n");
}

// The unit of the keeper has OOMScoreAdjust=, and what it starts would inherit that.
TEST_CASE("a keeper that is spared when memory runs out does not spare its cages, and they cannot help it") {
    cage_machine& machine = cage_machine::here();
    const std::string before = read_file("/proc/self/oom_score_adj");
    const auto set_own = [](const std::string& text) { std::ofstream("/proc/self/oom_score_adj") << text; };
    const std::vector<std::string> look{"sh", "-c",
                                        "cat /proc/1/oom_score_adj /proc/self/oom_score_adj; "
                                        "echo -500 >/proc/self/oom_score_adj; cat /proc/self/oom_score_adj"};
    set_own("-500");
    const auto cage = machine.start(sealed(), {"sleep", "600"});
    const probed entered = cage->enter(look);
    const probed first = machine.run(sealed(), look);
    set_own(before);
    CHECK(first.output == "0\n0\n0\n");
    CHECK(entered.output == "0\n0\n0\n");
}

} // namespace
} // namespace pinfold::test
