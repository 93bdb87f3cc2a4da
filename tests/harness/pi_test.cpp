// Real pi in a cage: its provider reached through the gateway by pi's own list, without the key in it.
#include "harness/harness_machine.hpp"
#include "support/catch.hpp"

using namespace pinfold;
using namespace pinfold::test;

namespace {

bool holds(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

void give_providers(const harness_machine& with, const char* api, const std::string& base) {
    const json model{{"id", "stand-in"},
                     {"name", "stand-in"},
                     {"reasoning", false},
                     {"input", {"text"}},
                     {"contextWindow", 100000},
                     {"maxTokens", 4000},
                     {"cost", {{"input", 0}, {"output", 0}, {"cacheRead", 0}, {"cacheWrite", 0}}}};
    const json list{
        {"providers",
         {{"house",
           {{"baseUrl", base}, {"api", api}, {"apiKey", harness_machine::key}, {"models", {model}}}}}}};
    with.write(with.home() / ".pi/agent/models.json", list.dump());
}

} // namespace

TEST_CASE("pi's turn in a cage: a tool, the answer, the key put on outside and nowhere inside") {
    for (const auto& [api, base] : {std::pair{"anthropic-messages", "https://93.184.216.34:8443"},
                                    {"openai-completions", "https://93.184.216.34:8443/v1"}}) {
        INFO(api);
        harness_machine with({"--pi-args", "--provider house --model stand-in"});
        give_providers(with, api, base);
        const answered made = with.create({{"harness", "pi"}, {"cage", json::object()}});
        INFO(made.text);
        REQUIRE(made.status == 201);
        const std::string seen = with.turn("TOOL cat ~/.pi/agent/models.json; env; touch made.txt");
        INFO(seen << "\n" << with.log());
        CHECK(holds(seen, "the tool said"));
        CHECK(holds(seen, "http://192.0.0.1/provider/house"));
        CHECK(!holds(seen, harness_machine::key));
        CHECK(std::filesystem::exists(with.project() / "made.txt"));
        bool with_key = false;
        for (const json& each : with.requests()) {
            const json& fields = each["fields"];
            with_key = with_key || fields.value("x-api-key", "") == harness_machine::key ||
                       fields.value("authorization", "") == std::string("Bearer ") + harness_machine::key;
        }
        CHECK(with_key);
        // Its conversation is the owner's real file, and goes on when the program is started again.
        CHECK(with.api().post("/v1/sessions/heron/restart").status == 204);
        const std::string after = with.turn("SAY more");
        INFO(after << "\n" << with.log());
        CHECK(holds(after, "you said: more"));
        CHECK(!holds(after, "(0 answers before)"));
    }
}
