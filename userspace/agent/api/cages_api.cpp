#include "agent/api/json_in.hpp"
#include "agent/api/json_out.hpp"
#include "agent/api/services.hpp"

#include "spec/validate.hpp"

#include <map>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace pinfold {

using nlohmann::json;

namespace {

http::response not_there(const std::string& name) {
    return answer_error(404, fmt::format("there is no cage \"{}\"; 'pinfold ls' lists them", name));
}

} // namespace

task<std::optional<http::response>> get_version(services& with, exchange&) {
    const keeper_link& keeper = with.owned.keeper();
    json answer{{"version", PINFOLD_VERSION},
                {"pid", ::getpid()},
                {"owner", ::getuid()},
                {"keeper", {{"socket", keeper.socket().native()}, {"connected", keeper.connected()}}}};
    if (!keeper.connected()) answer["keeper"]["error"] = keeper.trouble();
    co_return answer_json(answer);
}

// Without a keeper the answer still says what this agent knows, so that nothing that runs is hidden.
task<std::optional<http::response>> list_cages(services& with, exchange&) {
    std::string trouble;
    std::vector<wire::cage_state> states;
    try {
        states = co_await with.owned.list();
    } catch (const keeper_unreachable& error) {
        trouble = error.what();
    }
    std::map<std::string, json> sorted;
    for (const auto& each : with.owned.known()) {
        if (!trouble.empty() || each->mode == run_mode::uncaged)
            sorted.insert_or_assign(each->name, to_json(*each));
    }
    for (const wire::cage_state& each : states)
        sorted.insert_or_assign(each.name, to_json(each, with.owned.find(each.name).get()));
    json answer{{"cages", json::array()}};
    for (auto& [name, each] : sorted) answer["cages"].push_back(std::move(each));
    if (!trouble.empty()) answer["error"] = trouble;
    co_return answer_json(answer, trouble.empty() ? 200 : 503);
}

task<std::optional<http::response>> get_cage(services& with, exchange& asked) {
    const auto own = with.owned.find(asked.name);
    if (own && own->mode == run_mode::uncaged) co_return answer_json(to_json(*own));
    for (const wire::cage_state& each : co_await with.owned.list()) {
        if (each.name != asked.name) continue;
        json answer = to_json(each, own.get());
        if (own && own->id != 0) answer["network"] = to_json(with.owned.network(own->id));
        co_return answer_json(answer);
    }
    co_return not_there(asked.name);
}

task<std::optional<http::response>> remove_cage(services& with, exchange& asked) {
    if (!is_name(asked.name)) co_return not_there(asked.name);
    co_await with.owned.remove(asked.name);
    co_return http::response{.status = 204};
}

task<std::optional<http::response>> change_limits(services& with, exchange& asked) {
    const auto change = read_limits_request(asked.request.body);
    if (!change) co_return answer_error(400, change.error().text());
    const limits_spec limits = co_await with.owned.change_limits(asked.name, *change);
    co_return answer_json(to_json(limits));
}

task<std::optional<http::response>> plan_cage(services& with, exchange& asked) {
    auto request = read_run_request(asked.request.body);
    if (!request) co_return answer_error(400, request.error().text());
    co_return answer_json({{"steps", co_await with.owned.plan(std::move(*request))}});
}

} // namespace pinfold
