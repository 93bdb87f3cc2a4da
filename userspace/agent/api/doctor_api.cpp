#include "agent/api/services.hpp"
#include "agent/doctor.hpp"
#include "agent/tasks/task_board.hpp"

#include <nlohmann/json.hpp>

namespace pinfold {

using nlohmann::json;

namespace {

json to_json(const doctor_report& from) {
    json result{{"ok", from.problems.empty()},
                {"facts", json::array()},
                {"probes", json::array()},
                {"problems", from.problems},
                {"denials", {{"sealed", from.sealed_denials}, {"caged", from.caged_denials}}}};
    for (const wire::fact& each : from.facts)
        result["facts"].push_back({{"name", each.name}, {"value", each.value}, {"good", each.good}});
    for (const doctor_probe& each : from.probes)
        result["probes"].push_back({{"mode", to_string(each.mode)},
                                    {"name", each.name},
                                    {"refused", each.refused},
                                    {"detail", each.detail}});
    return result;
}

} // namespace

task<std::optional<http::response>> run_doctor(services& with, exchange&) {
    doctor_report report;
    co_await look_at_machine(with.owned, report);
    for (const cage_mode mode : {cage_mode::sealed, cage_mode::caged})
        co_await try_mode(with.owned, mode, report);
    if (with.tasks != nullptr)
        for (const receiver& each : co_await with.tasks->look_at_receivers())
            report.facts.push_back({"agent of " + each.at.name, each.text(), each.is != receiver::heeds::no});
    co_return answer_json(to_json(report));
}

} // namespace pinfold
