// Keeper or agent die while cages live: who goes on, who ends, and what the owner is told.

#include "base/file.hpp"
#include "support/catch.hpp"
#include "whole/whole_machine.hpp"

#include <algorithm>

namespace pinfold::test {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

bool in_list(whole_machine& machine, const std::string& name) {
    const json list = machine.ask({"ls"});
    return std::ranges::any_of(list.at("cages"), [&](const json& each) { return each.at("name") == name; });
}

TEST_CASE("a cage whose keeper dies goes on behind its guards, and the next keeper serves its agent again") {
    whole_machine machine;
    const words web{"curl", "-sS", "-m", "20", fmt::format("http://{}/", internet)};
    const auto with_web = [&](words arguments) {
        arguments.insert(arguments.end(), web.begin(), web.end());
        return machine.run(arguments).out;
    };
    CHECK(with_web({"run", "--sealed", "--"}) ==
          "hello from the internet\n"); // what the agent opens once is open
    const auto before = machine.census();
    machine.net().reset();
    started_cli heron(machine.pinfold(), machine.in_cage("heron", trying_script()));
    REQUIRE(eventually([&] { return heron.says("ready"); }));
    const json told = machine.ask({"inspect", "heron"});

    machine.kill_keeper();
    CHECK(machine.unguarded().empty());
    CHECK(machine.cages().size() == 1);
    const cli_result blind = machine.run({"ls"}); // it says what it knows, and what is missing
    CHECK(blind.status == 1);
    CHECK_THAT(blind.out, ContainsSubstring("heron"));
    CHECK_THAT(blind.err, ContainsSubstring("keeper"));
    CHECK(machine.run({"exec", "heron", "--", "true"}).status == 125);

    machine.start_keeper();
    CHECK(in_list(machine, "heron"));
    const json after = machine.ask({"inspect", "heron"});
    CHECK(after.at("adopted") == true);
    for (const char* same : {"cage", "pid", "mode", "dir", "id_base", "limits", "owner", "started"})
        CHECK(after.at(same) == told.at(same));
    CHECK(machine.run({"exec", "heron", "--", "echo", "inside"}).out == "inside\n");
    // Its network never stopped: the relay is the agent's.
    CHECK(with_web({"exec", "heron", "--"}) == "hello from the internet\n");
    CHECK(machine.at_target() == nothing);
    CHECK_FALSE(heron.says("reached"));
    CHECK(machine.unguarded().empty());
    CHECK(machine.run({"rm", "heron"}).status == 0);
    CHECK(heron.wait() == 128 + SIGKILL);
    machine.next_range(); // what a keeper makes for its first cage
    CHECK(machine.differs_from(before) == "");
}

TEST_CASE("an adopted cage ends with its agent, as if there had been one keeper only") {
    whole_machine machine;
    machine.next_range();
    started_cli heron(machine.pinfold(), machine.in_cage("heron", trying_script()));
    REQUIRE(eventually([&] { return heron.says("ready"); }));
    machine.kill_keeper();
    machine.start_keeper();
    CHECK(in_list(machine, "heron")); // the agent is connected again, and has claimed it
    REQUIRE(eventually([&] { return machine.run({"exec", "heron", "--", "true"}).status == 0; }));
    machine.kill_agent();
    CHECK(heron.wait() == 125);
    CHECK_THAT(heron.err(), ContainsSubstring("agent"));
    CHECK(eventually([&] { return machine.cages().empty(); }));
    CHECK(machine.run({"run", "--sealed", "--name", "heron", "--", "echo", "again"}).out == "again\n");
}

TEST_CASE("an adopted cage whose agent died with the keeper is ended when nobody comes back for it") {
    whole_machine machine({.run_size = "", .state_size = "", .config = "claim-seconds = 3\n"});
    // Two agents of one owner: one dies, one lives.
    cli second(machine.home() / "run/second/api.sock");
    second.environment = machine.pinfold().environment;
    second.environment.push_back("XDG_STATE_HOME=" +
                                 (machine.home() / "second-state").native()); // one store, one agent
    second.user = owner_id;
    second.directory = machine.project();
    machine.net().reset();
    started_cli lost(machine.pinfold(), machine.in_cage("lost", trying_script()));
    started_cli kept(second, machine.in_cage("kept", trying_script()));
    REQUIRE(eventually([&] { return lost.says("ready") && kept.says("ready"); }));
    machine.kill_keeper();
    machine.kill_agent();
    CHECK(lost.wait() == 125);
    CHECK(machine.cages().size() == 2); // guarded, without a keeper: nobody is there to end them
    CHECK(machine.unguarded().empty());
    machine.start_keeper();
    CHECK(machine.cages().size() == 2); // whole, so it was adopted
    CHECK(eventually([&] { return machine.cages().size() == 1; }, std::chrono::seconds(30)));
    CHECK_THAT(machine.keeper_log(), ContainsSubstring("no agent has come back for it within 3 s"));
    // The twin: the one that was claimed goes on past that time.
    const json list = json::parse(second.run({"--json", "ls"}).out);
    REQUIRE(list.at("cages").size() == 1);
    CHECK(list.at("cages")[0].at("name") == "kept");
    CHECK(machine.at_target() == nothing);
    const auto version = json::parse(second.run({"--json", "version"}).out);
    ::kill(version.at("agent").at("pid").get<pid_t>(), SIGTERM);
    CHECK(kept.wait() == 125); // nobody's child any more
    CHECK(eventually([&] { return machine.cages().empty(); }));
}

TEST_CASE("a command that ends while another keeper watches it is told as ended, its code as not known") {
    whole_machine machine;
    machine.next_range();
    const auto before = machine.census();
    started_cli one(machine.pinfold(), {"run", "--sealed", "--name", "heron", "--", "sh", "-c",
                                        "echo ready; read go; echo bye; exit 5"});
    REQUIRE(eventually([&] { return one.says("ready"); }));
    machine.kill_keeper();
    machine.start_keeper();
    REQUIRE(machine.run({"exec", "heron", "--", "true"}).status == 0);
    one.type("go\n");
    CHECK(one.wait() == 125);
    CHECK(one.says("bye")); // its streams were never the keeper's
    CHECK_THAT(one.err(), ContainsSubstring("its exit code is not known"));
    machine.next_range();
    CHECK(machine.differs_from(before) == "");
}

TEST_CASE(
    "an orderly stop of the keeper leaves cages as a crash does; an orderly stop of the agent ends them") {
    whole_machine machine;
    machine.next_range();
    const auto before = machine.census();
    started_cli heron(machine.pinfold(), machine.in_cage("heron", trying_script()));
    REQUIRE(eventually([&] { return heron.says("ready"); }));
    machine.kill_keeper(SIGTERM);
    CHECK(machine.unguarded().empty());
    CHECK(machine.cages().size() == 1);
    machine.start_keeper();
    CHECK(in_list(machine, "heron"));
    machine.kill_agent(SIGTERM);
    CHECK(heron.wait() != 0);
    CHECK(eventually([&] { return machine.cages().empty(); }));
    machine.next_range();
    CHECK(machine.differs_from(before) == "");
}

TEST_CASE("what the keeper did not make it leaves alone, whatever its name") {
    whole_machine machine;
    machine.next_range();
    machine.kill_keeper();
    std::filesystem::create_directory(machine.cgroup_folder() / "somebody-elses");
    std::filesystem::create_directory(machine.pins() / "cages/not-a-cage");
    std::filesystem::create_directory(machine.run_dir() / "mine");
    std::ofstream(machine.run_dir() / "mine/file") << "text";
    machine.start_keeper();
    CHECK(std::filesystem::exists(machine.cgroup_folder() / "somebody-elses"));
    CHECK(std::filesystem::exists(machine.pins() / "cages/not-a-cage"));
    CHECK(read_file(machine.run_dir() / "mine/file") == "text");
    ::rmdir((machine.cgroup_folder() / "somebody-elses").c_str());
    ::rmdir((machine.pins() / "cages/not-a-cage").c_str());
}

} // namespace
} // namespace pinfold::test
