// The outbox of a sealed session: what is in it, and carrying it to another session.
#include "agent/api/outbox_routes.hpp"
#include "agent/api/session_routes.hpp"
#include "agent/outbox/carrier.hpp"
#include "agent/tasks/task_text.hpp"
#include "base/beneath.hpp"

#include <nlohmann/json.hpp>

namespace pinfold {

using nlohmann::json;

task<std::optional<http::response>> list_outbox(services& with, exchange& asked) {
    const std::shared_ptr<session> one = session_of(with, asked);
    if (with.outboxes == nullptr) co_return answer_error(501, "this agent carries no outboxes");
    const outbox_carrier::contents all = co_await with.outboxes->list(one->row().name);
    json files = json::array(), left = json::array();
    std::uint64_t bytes = 0;
    for (const auto& each : all.files) {
        files.push_back({{"name", plain_line(each.name)},
                         {"size", each.size},
                         {"time", time_text(each.time * second_ms)}});
        bytes += each.size;
    }
    for (const outbox::left_out& each : all.left)
        left.push_back({{"name", plain_line(each.name)}, {"why", each.why}});
    co_return answer_json({{"outbox", all.folder.native()},
                           {"files", std::move(files)},
                           {"bytes", bytes},
                           {"left_out", std::move(left)},
                           {"left_out_more", all.untold}});
}

task<std::optional<http::response>> send_outbox(services& with, exchange& asked) {
    const std::shared_ptr<session> one = session_of(with, asked);
    if (with.outboxes == nullptr) co_return answer_error(501, "this agent carries no outboxes");
    const json body = json::parse(asked.request.body, nullptr, false);
    if (!body.is_object() || !body.contains("to") || !body["to"].is_string())
        throw bad_request("to: must be MACHINE/SESSION");
    if (body.contains("only") && !body["only"].is_string())
        throw bad_request("only: must be a folder in the outbox");
    const std::string line = co_await with.outboxes->send(one->row().name, body["to"].get<std::string>(),
                                                          body.value("only", std::string()));
    co_return answer_json({{"result", line}});
}

} // namespace pinfold
