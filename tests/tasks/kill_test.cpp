// Tasks outlive the agent: a real one, killed and started again.
#include "support/catch.hpp"
#include "task_machine.hpp"

#include <filesystem>

using namespace pinfold;
using namespace pinfold::test;

namespace {

class killable : public agent_with_standin, public asking_client {
public:
    killable() : agent_with_standin({}), asking_client(agent.api()) {}
    answered make(const std::string& name) const {
        json body = note_taker(out(name));
        std::filesystem::create_directories(agent.directory() / "project");
        body.update({{"name", name}, {"dir", (agent.directory() / "project").native()}});
        return post("/v1/sessions", body);
    }
    [[nodiscard]] std::filesystem::path out(const std::string& name) const {
        return agent.directory() / (name + ".out");
    }
    void kill_and_start() {
        agent.stop(SIGKILL);
        agent.start(with_standin({}));
    }
};

} // namespace

TEST_CASE("kill -9 of the agent loses no task that was told of: held, queued, given, blocked and done ones") {
    killable with;
    REQUIRE(with.make("heron").status == 201);
    REQUIRE(with.ask("done", "work 1").contains("id"));
    REQUIRE(says(with.out("heron"), "work 1"));
    REQUIRE(with.becomes("heron:done", "WORKING"));
    REQUIRE(with.report("heron:done", "done", "result 1").status == 200);
    REQUIRE(with.ask("blocked", "work 2").contains("id"));
    REQUIRE(with.becomes("heron:blocked", "WORKING"));
    REQUIRE(with.report("heron:blocked", "blocked", "why?").status == 200);
    REQUIRE(with.ask("given", "work 3").contains("id"));
    REQUIRE(with.becomes("heron:given", "WORKING"));
    REQUIRE(says(with.out("heron"), "work 3"));
    REQUIRE(with.ask("queued", "work 4").contains("id"));
    REQUIRE(with.ask("held", "work 5", "w1").contains("id"));
    json before = with.get("/v1/tasks").body;
    REQUIRE(before["tasks"].size() == 5);

    with.kill_and_start();
    json after = with.get("/v1/tasks").body;
    CHECK(after == before);
    CHECK(with.ask("queued", "work 4")["id"] == "heron:queued"); // resent, since its asker does not know
    CHECK(with.report("heron:given", "done", "result 3").status == 200);
    REQUIRE(says(with.out("heron"), "work 4"));
    CHECK(text_of(with.out("heron")).find("work 5") == std::string::npos);
    REQUIRE(with.becomes("heron:queued", "WORKING"));
    CHECK(with.report("heron:queued", "done").status == 200);
    CHECK(with.post("/v1/tasks/heron:held/allow").status == 200);
    REQUIRE(says(with.out("heron"), "work 5"));
    for (const char* each : {"work 1", "work 2", "work 3", "work 4", "work 5"}) {
        const std::string all = text_of(with.out("heron"));
        INFO(each);
        CHECK(all.find(each) == all.rfind(each)); // nothing was given twice
    }
}

TEST_CASE("a task that was told of just before kill -9 is given after it, once") {
    killable with;
    REQUIRE(with.make("heron").status == 201);
    for (int round = 0; round < 5; ++round) {
        const std::string id = fmt::format("k{}", round), text = fmt::format("work <{}>", round);
        REQUIRE(with.ask(id, text).contains("id"));
        with.kill_and_start(); // at whichever moment of its delivery this is
        REQUIRE(with.becomes("heron:" + id, "WORKING"));
        CHECK(with.report("heron:" + id, "done").status == 200);
    }
    const std::string all = text_of(with.out("heron"));
    for (int round = 0; round < 5; ++round) {
        const std::string text = fmt::format("work <{}>", round);
        INFO(text);
        CHECK(all.find(text) == all.rfind(text));
    }
}
