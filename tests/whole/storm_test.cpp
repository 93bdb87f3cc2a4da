// Keeper and agent are killed at random moments while cages are made, run and end. A program in each cage tries what is
// forbidden all the time.
//
// PINFOLD_STORM_KILLS=1000 makes it a long one; PINFOLD_STORM_SEED repeats one, as far as the scheduler lets it.

#include "cage/ids.hpp"
#include "support/catch.hpp"
#include "whole/whole_machine.hpp"

#include <algorithm>
#include <cstdio>
#include <random>

namespace pinfold::test {
namespace {

using namespace std::chrono_literals;

unsigned long number_from(const char* name, unsigned long otherwise) {
    const char* text = std::getenv(name);
    return text != nullptr ? std::stoul(text) : otherwise;
}

class storm {
public:
    storm(whole_machine& machine, unsigned long seed) : machine_(machine), random_(seed) {}

    void round(unsigned long number) {
        CAPTURE(number);
        fill();
        std::optional<started_cli> passing; // being made or unmade when it happens
        if (chance(2)) passing.emplace(machine_.pinfold(), words{"-q", "run", "--sealed", "--", "true"});
        if (chance(3)) wait_until_ready();
        std::this_thread::sleep_for(
            std::chrono::microseconds(random_() % 60'000)); // where it hits is not chosen
        if (chance(2))
            kill_keeper();
        else
            kill_agent();
        CHECK(machine_.unguarded().empty());
        if (passing) {
            const int status = passing->wait(60s);
            CAPTURE(passing->err());
            CHECK((status == 0 || status == 125));
        }
    }

    void end() {
        for (auto& each : slots_) {
            CHECK_FALSE((each && each->says("reached")));
            each.reset();
        }
        CHECK(kept > 0);
        CHECK(keepers > 0);
        CHECK(agents > 0);
    }
    unsigned keepers = 0, agents = 0, kept = 0;

private:
    using slot = std::optional<started_cli>;

    bool chance(unsigned in) { return random_() % in == 0; }
    static bool is_ready(const slot& each) { return each && each->says("ready"); }

    // Some of them may just be hearing that what they asked is dead: others take their place.
    void wait_until_ready() {
        const bool all = eventually(
            [&] {
                fill();
                return std::ranges::all_of(slots_, is_ready);
            },
            30s);
        std::string said;
        for (const slot& each : slots_) said += (is_ready(each) ? "ready " : "not ready ") + each->err();
        CAPTURE(said, machine_.keeper_log(), machine_.agent_log());
        REQUIRE(all);
    }

    void fill() {
        for (std::size_t i = 0; i < slots_.size(); ++i) {
            slot& each = slots_[i];
            if (each && each->running()) continue;
            CHECK_FALSE((each && each->says("reached")));
            each.emplace(machine_.pinfold(),
                         machine_.in_cage(fmt::format("storm-{}", ++names_), trying_script()));
            sure_from_[i] = {};
        }
    }
    // A cage whose program had begun is never lost with its keeper.
    void kill_keeper() {
        std::vector<started_cli*> running;
        const auto now = std::chrono::steady_clock::now();
        for (std::size_t i = 0; i < slots_.size(); ++i)
            if (is_ready(slots_[i]) && slots_[i]->running() && now > sure_from_[i])
                running.push_back(&*slots_[i]);
        machine_.kill_keeper();
        CHECK(machine_.unguarded().empty());
        machine_.start_keeper();
        ++keepers;
        for (started_cli* each : running) {
            CAPTURE(each->err(), machine_.keeper_log());
            CHECK(each->running());
            ++kept;
        }
    }

    void kill_agent() {
        std::vector<started_cli*> running;
        for (std::size_t i = 0; i < slots_.size(); ++i) {
            if (is_ready(slots_[i]))
                running.push_back(&*slots_[i]);
            else // may have been this agent's, say "ready" all the same, and be about to end
                sure_from_[i] = std::chrono::steady_clock::now() + 5s;
        }
        machine_.kill_agent();
        ++agents;
        // The others may not have reached an agent yet: they start the next one.
        for (started_cli* each : running) {
            const int status = each->wait(60s);
            CAPTURE(each->err());
            CHECK(status == 125);
        }
    }

    whole_machine& machine_;
    std::mt19937_64 random_;
    std::array<slot, 3> slots_;
    std::array<std::chrono::steady_clock::time_point, 3> sure_from_{}; // whose agent lives
    unsigned names_ = 0;
};

// All six ranges are there again, and no seventh.
void check_ranges(whole_machine& machine) {
    std::array<std::optional<started_cli>, 6> all;
    for (std::size_t i = 0; i < all.size(); ++i)
        all[i].emplace(machine.pinfold(), machine.in_cage(fmt::format("range-{}", i), trying_script()));
    for (const auto& each : all) {
        CAPTURE(each->err());
        CHECK(eventually([&] { return each->says("ready"); }, 20s));
    }
    const cli_result more = machine.run({"run", "--sealed", "--", "true"});
    CHECK(more.status == 125);
    CHECK_THAT(more.err, Catch::Matchers::ContainsSubstring("id ranges"));
}

TEST_CASE(
    "random kills of keeper and agent under load leave no moment unguarded, lose no cage and leak nothing") {
    const unsigned long kills = number_from("PINFOLD_STORM_KILLS", 40);
    const unsigned long seed = number_from("PINFOLD_STORM_SEED", std::random_device{}());
    std::printf("storm of %lu kills with PINFOLD_STORM_SEED=%lu\n", kills, seed);
    std::fflush(stdout);
    CAPTURE(seed);
    // A pool of six ranges: one that leaks is soon missed.
    const std::uint64_t last_id = first_pool_id + 6ULL * ids_per_cage - 1;
    whole_machine machine(
        {.run_size = "",
         .state_size = "",
         .config = fmt::format("claim-seconds = 10\nfirst-id = {}\nlast-id = {}\n", first_pool_id, last_id)});
    check_ranges(machine); // each range's namespace is kept for the next cage
    CHECK(eventually([&] { return machine.cages().empty(); }, 20s));
    const auto before = machine.census();
    machine.net().reset();
    storm weather(machine, seed);
    for (unsigned long number = 1; number <= kills; ++number) weather.round(number);
    weather.end();
    CHECK(eventually([&] { return machine.cages().empty(); }, 40s));
    CHECK(machine.at_target() == nothing);
    machine.kill_agent();
    check_ranges(machine);
    CHECK(machine.differs_from(before, 40s) == "");
    // The twin: the same program in a caged cage reaches it, and is counted.
    started_cli twin(machine.pinfold(), machine.in_cage("twin", trying_script(), "--caged"));
    CHECK(eventually([&] { return twin.says("reached"); }, 20s));
    CHECK(machine.at_target().bytes > 0);
    std::printf("%u keepers and %u agents were killed; %u cages were kept\n", weather.keepers, weather.agents,
                weather.kept);
}

} // namespace
} // namespace pinfold::test
