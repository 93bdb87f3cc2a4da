// What a session left in its project that could run later, outside its cage.
#include "agent/api/outbox_routes.hpp"
#include "agent/api/session_routes.hpp"
#include "agent/report/reports.hpp"
#include "agent/sessions/session_list.hpp"

#include <nlohmann/json.hpp>

namespace pinfold {

using nlohmann::json;

task<std::optional<http::response>> show_report(services& with, exchange& asked) {
    const std::shared_ptr<session> one = session_of(with, asked);
    if (with.reports == nullptr) co_return answer_error(501, "this agent makes no reports");
    const bool all = asked.request.query.contains("all") && asked.request.query.at("all") != "0";
    const report::look seen = co_await with.reports->look(one->row().id, one->row().directory);
    json list = json::array();
    std::size_t there = 0;
    for (const report::finding& each : seen.found) {
        const bool was_there = each.is == report::finding::state::there;
        there += was_there ? 1 : 0;
        if (was_there && !all && !seen.since.empty()) continue;
        list.push_back({{"state", report::to_string(each.is)},
                        {"kind", each.what.kind},
                        {"path", each.what.path},
                        {"what", each.what.what},
                        {"why", each.what.why},
                        {"details", each.what.details}});
    }
    co_return answer_json({{"session", one->row().name},
                           {"dir", one->row().directory},
                           {"since", seen.since.empty() ? json() : json(seen.since)},
                           {"complete", seen.is_complete},
                           {"entries", seen.entries},
                           {"there", there},
                           {"found", std::move(list)}});
}

} // namespace pinfold
