// The keeper is killed at every system call of making, starting, entering and ending a cage. Afterwards the cage is
// guarded or gone, and the next keeper leaves no trace of what was not whole.

#include "base/error.hpp"
#include "base/file.hpp"
#include "crash/keeper_process.hpp"
#include "support/catch.hpp"
#include "support/tracer.hpp"

#include <array>
#include <csignal>
#include <filesystem>
#include <functional>
#include <thread>
#include <unistd.h>

namespace pinfold::test {
namespace {

namespace fs = std::filesystem;

// A cage that has processes has all of its guards: pins say so, since they are what holds the links.
void check_guarded(const keeper_home& home) {
    std::error_code ignored;
    for (const auto& each : fs::directory_iterator(home.cgroup_folder(), ignored)) {
        const std::string name = each.path().filename();
        if (!each.is_directory() || name == "anchor" || read_file(each.path() / "cgroup.procs").empty())
            continue;
        const fs::path pins = fs::path("/sys/fs/bpf") / home.cgroup_folder().filename() / "cages" / name;
        for (const char* hook :
             {"connect4", "connect6", "sendmsg4", "sendmsg6", "sock_create", "setsockopt"}) {
            CAPTURE(name, hook);
            CHECK(fs::exists(pins / hook));
        }
    }
}

// What a keeper that comes afterwards makes of it, and that a cage of the same name can be made.
void check_recovery(keeper_home& home, const std::string& name) {
    process next = home.start();
    keeper_link link(home.socket());
    const auto list = std::get<wire::cages>(link.ask(wire::list{}).body).list;
    CAPTURE(home.log());
    if (list.empty()) CHECK(home.traces().empty());
    for (const wire::cage_state& each : list) {
        CHECK(each.adopted);
        CHECK(std::holds_alternative<wire::ok>(link.ask(wire::remove_cage{each.name}).body));
    }
    CHECK(home.traces().empty());
    const wire::message made = link.ask(wire::make{sleeping_spec(name)});
    REQUIRE(std::holds_alternative<wire::made>(made.body));
    CHECK(std::holds_alternative<wire::ok>(link.ask(wire::start{std::get<wire::made>(made.body).cage}).body));
    CHECK(std::holds_alternative<wire::ok>(link.ask(wire::remove_cage{name}).body));
    CHECK(home.traces().empty());
    next.signal(SIGTERM);
    (void)next.reap_within(std::chrono::seconds(10));
}

// Kills a keeper at call 1, 1 + `stride`, … of what `act` asks, until the answer comes before the kill.
int walk(const std::function<void(keeper_link&)>& prepare, const std::function<void(keeper_link&)>& act,
         int stride) {
    keeper_home home;
    int kills = 0;
    for (int calls = 1;; calls += stride) {
        process keeper = home.start();
        keeper_link link(home.socket());
        prepare(link);
        bool killed = false;
        {
            tracer traced(keeper.pid());
            act(link);
            killed = traced.step(calls, [&] { return link.readable(); });
            keeper.signal(SIGKILL);
        }
        (void)keeper.reap_within(std::chrono::seconds(10));
        CAPTURE(calls);
        check_guarded(home);
        check_recovery(home, "heron");
        if (!killed) return kills;
        ++kills;
    }
}

TEST_CASE("a keeper killed at any system call of making a cage leaves nothing unguarded and nothing behind") {
    const int kills = walk([](keeper_link&) {},
                           [](keeper_link& link) { link.send(wire::make{sleeping_spec("heron")}); }, 3);
    CHECK(kills > 30); // the twin: the walk did walk
}

std::uint64_t make_one(keeper_link& link) {
    const wire::message made = link.ask(wire::make{sleeping_spec("heron")});
    if (const auto* failed = std::get_if<wire::failed>(&made.body)) FAIL(failed->text);
    REQUIRE(std::holds_alternative<wire::made>(made.body));
    return std::get<wire::made>(made.body).cage;
}

TEST_CASE("a keeper killed at any system call of starting a cage leaves it guarded or gone") {
    std::uint64_t cage = 0;
    CHECK(walk([&](keeper_link& link) { cage = make_one(link); },
               [&](keeper_link& link) { link.send(wire::start{cage}); }, 1) > 3);
}

TEST_CASE("a keeper killed at any system call of ending a cage takes no guard from a living process") {
    CHECK(walk(
              [](keeper_link& link) {
                  const std::uint64_t cage = make_one(link);
                  REQUIRE(std::holds_alternative<wire::ok>(link.ask(wire::start{cage}).body));
              },
              [](keeper_link& link) { link.send(wire::remove_cage{"heron"}); }, 2) > 5);
}

TEST_CASE("a cage that was whole when its keeper died goes on, and can be entered afterwards") {
    keeper_home home;
    {
        process keeper = home.start();
        keeper_link link(home.socket());
        const std::uint64_t cage = make_one(link);
        REQUIRE(std::holds_alternative<wire::ok>(link.ask(wire::start{cage}).body));
        keeper.signal(SIGKILL);
        (void)keeper.reap_within(std::chrono::seconds(10));
    }
    process next = home.start();
    keeper_link link(home.socket());
    const auto list = std::get<wire::cages>(link.ask(wire::list{}).body).list;
    REQUIRE(list.size() == 1);
    CHECK(list[0].adopted);
    CHECK(list[0].name == "heron");
    for (const bool terminal : {false, true}) {
        command_spec command{.argv = {"cat", "/proc/sys/kernel/hostname"},
                             .environment = {"PATH=/usr/bin:/bin"},
                             .directory = "/"};
        if (terminal) command.terminal.emplace();
        const wire::message entered = link.ask(wire::exec{list[0].cage, command});
        REQUIRE(std::holds_alternative<wire::entered>(entered.body));
        std::array<char, 64> text{};
        CHECK(::read(entered.fds.at(terminal ? 0 : 1).get(), text.data(), text.size()) > 0);
        CHECK(std::string(text.data()).starts_with("heron"));
        const wire::ended ended = link.end_of(list[0].cage, std::get<wire::entered>(entered.body).process);
        CHECK(ended.status == 0);
    }
    CHECK(std::holds_alternative<wire::ok>(link.ask(wire::remove_cage{"heron"}).body));
    CHECK(link.end_of(list[0].cage).status == 137); // told to the owner's agent, whoever made the cage
    CHECK(home.traces().empty());
}

TEST_CASE("a cage ends when the agent that made it is gone, and leaves no trace") {
    keeper_home home;
    process keeper = home.start();
    {
        keeper_link link(home.socket());
        const std::uint64_t cage = make_one(link);
        REQUIRE(std::holds_alternative<wire::ok>(link.ask(wire::start{cage}).body));
        CHECK(home.traces().size() == 3); // the twin: cgroup, pins, record
    }
    keeper_link other(home.socket());
    for (int tries = 0; tries < 500 && !home.traces().empty(); ++tries)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    CHECK(home.traces().empty());
    CHECK(std::get<wire::cages>(other.ask(wire::list{}).body).list.empty());
}

} // namespace
} // namespace pinfold::test
