// What a person is told: the real keeper, agent and `pinfold`, as in tests/whole.

#include "limits/limited.hpp"
#include "support/catch.hpp"
#include "whole/whole_machine.hpp"

#include <csignal>

namespace pinfold::test {
namespace {

using Catch::Matchers::ContainsSubstring;

whole_machine& here() {
    need_controllers();
    static whole_machine machine;
    return machine;
}

cli_result run(const char* memory, const words& command) {
    words all{"run", "--sealed", "--memory", memory, "--"};
    all.insert(all.end(), command.begin(), command.end());
    return here().run(std::move(all));
}

TEST_CASE(
    "run ends with 137 and says which program the memory limit ended, at how much, and what to do (B47)") {
    const words hog = memory_hog(128 * mebibyte);
    const cli_result killed = run("64m", hog);
    CHECK(killed.status == 128 + SIGKILL);
    CHECK(killed.out.empty());
    CHECK_THAT(killed.err, ContainsSubstring("killed python3: memory limit 64 MiB reached (peak ") &&
                               ContainsSubstring("; raise it with --memory"));
    // The way out that it names; and a kill by somebody else is not taken for the limit's.
    const cli_result enough = run("256m", hog);
    CHECK(enough.status == 0);
    CHECK(enough.out == "held\n");
    CHECK(enough.err.empty());
    const cli_result other = run("64m", {"sh", "-c", "kill -KILL $$"});
    CHECK(other.status == 128 + SIGKILL);
    CHECK(other.err.empty());
}

TEST_CASE("run says so too where the program went on and only its child was killed (B47)") {
    words hog = memory_hog(128 * mebibyte);
    words command{"sh", "-c", "\"$@\"; echo child ended with $?", "sh"};
    command.insert(command.end(), hog.begin(), hog.end());
    const cli_result went_on = run("64m", command);
    CHECK(went_on.status == 0);
    CHECK_THAT(went_on.out, ContainsSubstring("child ended with 137\n"));
    CHECK_THAT(went_on.err, ContainsSubstring("killed python3: memory limit 64 MiB reached"));
}

TEST_CASE("the end of a program is told in JSON with process, limit and peak (B47)") {
    words all{"--json", "run", "--sealed", "--memory", "64m", "--"};
    const words hog = memory_hog(128 * mebibyte);
    all.insert(all.end(), hog.begin(), hog.end());
    const cli_result killed = here().pinfold().run(all);
    CHECK(killed.status == 128 + SIGKILL);
    const auto end = nlohmann::json::parse(killed.err, nullptr, false);
    REQUIRE(end.is_object());
    CHECK(end.at("memory_kill") == true);
    CHECK(end.at("memory_kills") == 1);
    CHECK(end.at("memory_victim") == "python3");
    CHECK(end.at("memory_limit") == 64 * mebibyte);
    CHECK(end.at("memory_peak").get<std::uint64_t>() > 32 * mebibyte);
    CHECK(end.at("memory_peak").get<std::uint64_t>() <= 64 * mebibyte);
}

} // namespace
} // namespace pinfold::test
