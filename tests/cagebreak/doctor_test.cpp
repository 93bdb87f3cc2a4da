// What the doctor says of real cages: that all is well where it is, and which guard is missing where one is.
#include "agent/doctor.hpp"
#include "cagebreak/cage_machine.hpp"
#include "support/catch.hpp"

#include <algorithm>

namespace pinfold::test {
namespace {

std::vector<std::string> problems_of(const cage_kind& kind, cage_mode mode) {
    const probed report = cage_machine::here().probe(kind, {"doctor"});
    denial_log log;
    std::uint64_t cage = 0;
    for (const pinfold_denial& each : report.denials) {
        cage = each.cage;
        log.add(each, "doctor");
    }
    return judge_probes(parse_probe(report.output, mode), mode, cage, log);
}

bool names(const std::vector<std::string>& problems, const std::string& text) {
    return std::ranges::any_of(problems,
                               [&](const std::string& each) { return each.find(text) != std::string::npos; });
}

TEST_CASE("the doctor finds nothing wrong with a cage as the product builds it, in either mode") {
    CHECK(problems_of(sealed(), cage_mode::sealed) == std::vector<std::string>{});
    CHECK(problems_of(caged(), cage_mode::caged) == std::vector<std::string>{});
}

TEST_CASE("the doctor names the guard that a cage lacks, also where the relay refuses in its place") {
    const auto without_destinations = problems_of(sealed().without(guard::destinations), cage_mode::sealed);
    CHECK(names(without_destinations, "a private address (guard destinations)"));
    CHECK(names(problems_of(caged().without(guard::destinations), cage_mode::caged), "guard destinations"));
    const auto without_options = problems_of(sealed().without(guard::options), cage_mode::sealed);
    CHECK(names(without_options, "guard options"));
    CHECK_FALSE(names(without_options, "guard destinations"));
}

TEST_CASE("the doctor names what a cage lacks beside its guards") {
    CHECK(names(problems_of(sealed().without<filter_syscalls>(), cage_mode::sealed),
                "a sealed cage allows what it must refuse"));
    CHECK(names(problems_of(sealed().without<drop_capabilities>(), cage_mode::sealed), "capabilities"));
}

} // namespace
} // namespace pinfold::test
