#include "spec/rules.hpp"
#include "support/catch.hpp"

#include <pinfold/denial.h>
#include <set>

using namespace pinfold;

TEST_CASE("every rule has a name of its own and a reason") {
    std::set<std::string_view> names;
    for (std::uint32_t rule = 0; rule <= PINFOLD_RULE_LAST; ++rule) {
        const rule_text text = text_of_rule(rule);
        CAPTURE(rule, text.name);
        CHECK(names.insert(text.name).second);
        CHECK_FALSE(text.reason.empty());
        CHECK(text.reason.back() != '.');
        if (!text.remedy.empty()) CHECK(text.remedy.back() == '.');
        CHECK(rule_of_name(text.name) == rule);
    }
    CHECK(text_of_rule(PINFOLD_RULE_PRIVATE).name == "private");
    CHECK(text_of_rule(PINFOLD_RULE_SOURCE_ROUTE).name == "source-route");
    CHECK(text_of_rule(PINFOLD_RULE_AGENT_PORT).name == "agent-port");
}

TEST_CASE("a rule that is not known says so") {
    CHECK(text_of_rule(PINFOLD_RULE_LAST + 1).name == "unknown");
    CHECK(text_of_rule(0xffffffff).name == "unknown");
    CHECK_FALSE(rule_of_name("unknown"));
    CHECK_FALSE(rule_of_name(""));
}

TEST_CASE("every act has a name and a verb") {
    CHECK(name_of_act(PINFOLD_ACT_CONNECT) == "connect");
    CHECK(name_of_act(PINFOLD_ACT_SEND) == "send");
    CHECK(name_of_act(PINFOLD_ACT_SOCKET) == "socket");
    CHECK(name_of_act(PINFOLD_ACT_OPTION) == "option");
    CHECK(name_of_act(99) == "unknown");
    CHECK(verb_of_act(PINFOLD_ACT_CONNECT) == "connecting");
    CHECK_FALSE(verb_of_act(99).empty());
}
