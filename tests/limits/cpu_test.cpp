// cpu.max: how much of a second a cage gets. A property of the limit, by the kernel's own account, not of our speed.

#include "limits/limited.hpp"
#include "support/agent_fixture.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <thread>

namespace pinfold::test {
namespace {

using namespace std::chrono_literals;

std::uint64_t cpu_stat(const running_cage& cage, const std::string& key) {
    return cage.built().group().read_key("cpu.stat", key).value_or(0);
}

// Microseconds of CPU that the cage used in each second of the window.
double share(const running_cage& cage, std::chrono::seconds window) {
    const std::uint64_t used = cpu_stat(cage, "usage_usec");
    const auto begin = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(window);
    const std::uint64_t more = cpu_stat(cage, "usage_usec") - used;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    return static_cast<double>(more) / took.count() / 1e6;
}

TEST_CASE("two busy processes of a cage get the share of the CPUs that it was given, within a tenth") {
    cage_machine& machine = limited_machine();
    for (const std::uint32_t percent : {20U, 50U}) {
        const cage_kind kind = sealed().with_limits({.cpu_percent = percent});
        const auto busy = machine.start(kind, cpu_hog());
        REQUIRE(
            eventually([&] { return cpu_stat(*busy, "nr_throttled") > 10; })); // past its start, at the limit
        // No window may have more. A virtual machine whose own CPUs are taken away misses whole periods, so that one
        // undisturbed window is enough to show that it does not get less.
        const double limit = percent / 100.0;
        double most = 0;
        for (int window = 0; window < 12 && most < limit * 0.9; ++window) {
            const double got = share(*busy, 5s);
            CAPTURE(percent, window, got);
            CHECK(got <= limit * 1.1);
            most = std::max(most, got);
        }
        CAPTURE(percent, most);
        CHECK(most >= limit * 0.9);
    }
}

TEST_CASE("without the limit the same two processes get more") {
    cage_machine& machine = limited_machine();
    const auto busy = machine.start(without_limit(sealed().with_limits({.cpu_percent = 20}), "cpu.max"),
                                    cpu_hog());
    REQUIRE(eventually([&] { return cpu_stat(*busy, "usage_usec") > 1'000'000; }));
    CHECK(share(*busy, 5s) > 0.2 * 1.1);
    CHECK(cpu_stat(*busy, "nr_throttled") == 0);
}

} // namespace
} // namespace pinfold::test
