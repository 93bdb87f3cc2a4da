// Every example of docs/api.md is run as it stands, and its answer has the shape that is shown.
#include "support/agent_fixture.hpp"
#include "support/catch.hpp"
#include "support/fake_keeper.hpp"

#include <nlohmann/json.hpp>

using namespace pinfold::test;
using nlohmann::json;

namespace {

struct example {
    std::string command, answer;
};

std::vector<example> examples_of(const std::filesystem::path& page) {
    std::ifstream from(page);
    std::vector<example> found;
    bool inside = false;
    for (std::string line; std::getline(from, line);) {
        if (line.starts_with("```"))
            inside = line == "```console";
        else if (inside && line.starts_with("$ "))
            found.push_back({.command = line.substr(2), .answer = ""});
        else if (inside && !found.empty())
            found.back().answer += line + "\n";
    }
    return found;
}

std::string run(const std::string& command, const std::filesystem::path& api) {
    std::FILE* pipe = ::popen(("API=" + api.native() + "; " + command).c_str(), "r");
    std::string all;
    std::array<char, 4096> buffer{};
    while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe))
        all.append(buffer.data(), got);
    ::pclose(pipe);
    return all;
}

// The same keys with the same kinds of values; of lists the first element stands for all.
void same_shape(const json& shown, const json& real, const std::string& where) {
    INFO(where << ": shown " << shown.dump() << ", real " << real.dump());
    const bool numbers = shown.is_number() && real.is_number();
    CHECK((numbers || shown.type() == real.type()));
    if (shown.is_object() && real.is_object()) {
        for (const auto& [key, value] : shown.items()) {
            CHECK(real.contains(key));
            if (real.contains(key)) same_shape(value, real.at(key), where + "." + key);
        }
        for (const auto& [key, value] : real.items()) {
            INFO("not shown: " << key);
            CHECK(shown.contains(key));
        }
    }
    if (shown.is_array() && real.is_array() && !shown.empty()) {
        CHECK(!real.empty());
        if (!real.empty()) same_shape(shown.front(), real.front(), where + "[0]");
    }
}

} // namespace

TEST_CASE("the examples of docs/api.md are what the agent answers") {
    if (std::system("command -v curl >/dev/null") != 0) SKIP("curl");
    agent_fixture agent;
    fake_keeper keeper(agent.keeper_socket());
    stdio_peer heron(agent.api(), "/v1/cages",
                     R"({"name":"heron","mode":"sealed","dir":"/var/tmp","argv":["sleep","600"]})");
    heron.wait_for(PINFOLD_FRAME_STARTED);
    pinfold_denial denial{};
    denial.cage = keeper.last_cage;
    denial.act = PINFOLD_ACT_CONNECT;
    denial.rule = PINFOLD_RULE_PRIVATE;
    denial.family = AF_INET;
    keeper.deny(denial);
    REQUIRE(eventually([&] { return agent.get("/v1/denials").find("private") != std::string::npos; }));

    const std::vector<example> examples = examples_of(PINFOLD_SOURCE_DIR "/docs/api.md");
    CHECK(examples.size() >= 8);
    for (const example& each : examples) {
        const json shown = json::parse(each.answer, nullptr, false);
        INFO(each.command);
        REQUIRE(!shown.is_discarded());
        const json real = json::parse(run(each.command, agent.api()), nullptr, false);
        REQUIRE(!real.is_discarded());
        same_shape(shown, real, each.command);
    }
}
