// A machine on which limits cannot be enforced makes no cage, unless its owner accepted that by name. Also run where the
// controllers are missing indeed, as on a machine with hybrid cgroups.

#include "base/error.hpp"
#include "base/file.hpp"
#include "crash/keeper_process.hpp"
#include "limits/limited.hpp"
#include "support/agent_fixture.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <csignal>
#include <fstream>

namespace pinfold::test {
namespace {

using Catch::Matchers::ContainsSubstring;

// A cgroup with a process in it: by the kernel's rule it cannot hand controllers down.
class occupied_cgroup {
public:
    occupied_cgroup() : name_(fmt::format("pinfold-occupied-{}", ::getpid())) {
        const unique_fd root = open_directory(find_cgroup2(read_file("/proc/self/mountinfo")).value());
        group_ = cgroup::make(root.get(), name_);
        const pid_t pid = check(::fork(), "fork a process for a cgroup");
        if (pid == 0) {
            for (;;) ::pause();
        }
        inside_ = process(pid, open_pidfd(pid));
        group_.write("cgroup.procs", fmt::format("{}", pid));
    }
    occupied_cgroup(const occupied_cgroup&) = delete;
    occupied_cgroup& operator=(const occupied_cgroup&) = delete;
    ~occupied_cgroup() {
        (void)group_.kill(std::chrono::seconds(5));
        (void)inside_.reap_within(std::chrono::seconds(5));
        (void)group_.remove();
    }
    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    [[nodiscard]] const cgroup& group() const noexcept { return group_; }

private:
    std::string name_;
    cgroup group_;
    process inside_;
};

// The keeper's cages would be below `where`.
void configure(const keeper_home& home, const std::string& where, const std::string& more) {
    std::string text = read_file(home.folder() / "keeper.conf");
    text = text.substr(text.find("bpf-dir"), text.find("accept-unlimited") - text.find("bpf-dir"));
    std::ofstream(home.folder() / "keeper.conf") << "cgroup = " << where << "/cages\n" << text << more;
}

wire::message ask_for_cage(keeper_link& link) {
    return link.ask(wire::make{sleeping_spec("heron")});
}

TEST_CASE("without the controllers a cage is refused in one sentence, and nothing of it is left") {
    keeper_home home;
    const occupied_cgroup occupied;
    configure(home, occupied.name(), "");
    process keeper = home.start();
    keeper_link link(home.socket());
    const wire::message answer = ask_for_cage(link);
    REQUIRE(std::holds_alternative<wire::failed>(answer.body));
    CHECK_THAT(
        std::get<wire::failed>(answer.body).text,
        ContainsSubstring("cage refused: this machine's cgroup v2 has no controller for memory, cpu, pids") &&
            ContainsSubstring("accept-unlimited = memory, cpu, pids"));
    CHECK(home.traces().empty());
    keeper.signal(SIGTERM);
    CHECK(keeper.reap_within(std::chrono::seconds(10)));
}

TEST_CASE("a limit that was accepted to be missing is missing, and said; the others are still demanded") {
    keeper_home home;
    const occupied_cgroup occupied;
    configure(home, occupied.name(), "accept-unlimited = memory,cpu\n");
    {
        process keeper = home.start();
        keeper_link link(home.socket());
        const wire::message answer = ask_for_cage(link);
        REQUIRE(std::holds_alternative<wire::failed>(answer.body));
        CHECK_THAT(std::get<wire::failed>(answer.body).text, ContainsSubstring("no controller for pids,"));
        keeper.signal(SIGTERM);
        CHECK(keeper.reap_within(std::chrono::seconds(10)));
    }
    configure(home, occupied.name(), "accept-unlimited = memory,cpu,pids\n");
    process keeper = home.start();
    keeper_link link(home.socket());
    const wire::message made = ask_for_cage(link);
    REQUIRE(std::holds_alternative<wire::made>(made.body));
    const std::vector<std::string>& notes = std::get<wire::made>(made.body).notes;
    for (const char* each : {"memory", "cpu", "pids"})
        CHECK(std::ranges::find(notes, fmt::format("limits: not enforced: {}", each)) != notes.end());
    link.send(wire::remove_cage{"heron"});
    (void)link.answer();
    keeper.signal(SIGTERM);
    CHECK(keeper.reap_within(std::chrono::seconds(10)));
}

} // namespace
} // namespace pinfold::test
