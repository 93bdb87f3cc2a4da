// Who is told at the end of a run that acts were refused, and whose standard error stays as the program wrote it.
#include "support/catch.hpp"
#include "support/cli_process.hpp"
#include "support/fake_keeper.hpp"

#include <arpa/inet.h>
#include <nlohmann/json.hpp>

using namespace pinfold::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using words = std::vector<std::string>;

namespace {

pinfold_denial refused_router(std::uint64_t cage) {
    pinfold_denial what{};
    what.cage = cage;
    what.act = PINFOLD_ACT_CONNECT;
    what.rule = PINFOLD_RULE_PRIVATE;
    what.family = AF_INET;
    what.protocol = IPPROTO_TCP;
    what.port = 80;
    ::inet_pton(AF_INET, "192.168.1.1", static_cast<void*>(what.address));
    return what;
}

struct world {
    agent_fixture agent;
    fake_keeper keeper{agent.keeper_socket()};
    cli pinfold{agent.api()};
    std::string project = (agent.directory() / "home").native();
    std::filesystem::path told = agent.directory() / "home/told";

    // Waits until the file is there, so that the denials have come before the end.
    [[nodiscard]] words command(const std::string& code, const words& before = {}) const {
        words all = before;
        const std::string script = "until [ -e told ]; do sleep 0.02; done; echo own >&2; exit " + code;
        all.insert(all.end(),
                   {"run", "--caged", "--name", "heron", "--dir", project, "--", "sh", "-c", script});
        return all;
    }
    // Lets the cage be refused three times and then end.
    void refuse(unsigned made_before) {
        std::filesystem::remove(told);
        REQUIRE(eventually([&] { return keeper.makes > made_before; }));
        for (int i = 0; i < 3; ++i) keeper.deny(refused_router(keeper.last_cage));
        CHECK(eventually(
            [&] { return agent.get("/v1/cages/heron").find("\"denials\":3") != std::string::npos; }));
        std::ofstream(told) << "yes";
    }
    cli_result run(const words& arguments) {
        const unsigned before = keeper.makes;
        std::filesystem::remove(told);
        cli_result result;
        std::thread runner([&] { result = pinfold.run(arguments); });
        refuse(before);
        runner.join();
        return result;
    }
};

} // namespace

TEST_CASE("a program that succeeds leaves what it wrote to standard error alone, whatever was refused") {
    world here;
    const cli_result good = here.run(here.command("0"));
    CHECK(good.status == 0);
    CHECK_THAT(good.err, ContainsSubstring("own\n"));
    CHECK(good.err.find("refused") == std::string::npos);
}

TEST_CASE("whoever ran a program that failed is told what was refused, and how to ask why") {
    world here;
    const cli_result bad = here.run(here.command("7"));
    CHECK(bad.status == 7);
    CHECK_THAT(bad.err,
               ContainsSubstring("own\npinfold: 3 acts were refused: tcp 192.168.1.1:80 (private) 3 times; "
                                 "'pinfold denials heron' lists them, "
                                 "'pinfold why --caged tcp:192.168.1.1:80' explains\n"));
    CHECK(here.run(here.command("7", {"-q"})).err == "own\n"); // the twin
}

TEST_CASE("at a terminal a program that succeeds is told, too") {
    world here;
    const unsigned before = here.keeper.makes;
    cli_terminal terminal(here.pinfold, here.command("0"), 24, 80);
    here.refuse(before);
    CHECK(terminal.see("3 acts were refused: tcp 192.168.1.1:80 (private) 3 times"));
    CHECK(cli::wait(terminal.pid()) == 0);
}

TEST_CASE("as data what was refused is there for any program, counted") {
    world here;
    const cli_result good = here.run(here.command("0", {"--json"}));
    const json end = json::parse(good.err.substr(good.err.find('{')), nullptr, false);
    REQUIRE(end.is_object());
    CHECK(end.at("denials") == 3);
    REQUIRE(end.at("denied").size() == 1);
    CHECK(end.at("denied").at(0) == json({{"act", "connect"},
                                          {"wall", "guards"},
                                          {"rule", "private"},
                                          {"protocol", "tcp"},
                                          {"address", "192.168.1.1"},
                                          {"port", 80},
                                          {"count", 3}}));
}
