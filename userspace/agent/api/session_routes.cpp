#include "agent/api/session_routes.hpp"

#include "agent/api/outbox_routes.hpp"
#include "agent/api/route.hpp"
#include "agent/api/task_routes.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace pinfold {

namespace {

constexpr std::array routes{
    route{"GET", "/v1/harnesses", list_harnesses},
    route{"GET", "/v1/sessions", list_sessions},
    route{"POST", "/v1/sessions", create_session},
    route{"GET", "/v1/sessions/{name}", get_session},
    route{"DELETE", "/v1/sessions/{name}", delete_session},
    route{"PATCH", "/v1/sessions/{name}", change_session},
    route{"POST", "/v1/sessions/{name}/settings", change_session},
    route{"POST", "/v1/sessions/{name}/rename", rename_session},
    route{"POST", "/v1/sessions/{name}/restart", restart_session},
    route{"POST", "/v1/sessions/{name}/cage", move_session},
    route{"POST", "/v1/sessions/{name}/cage/limits", limit_session},
    route{"POST", "/v1/sessions/{name}/messages", send_message},
    route{"POST", "/v1/sessions/{name}/prompts/{id}", answer_prompt},
    route{"POST", "/v1/sessions/{name}/interrupt", interrupt_session},
    route{"GET", "/v1/sessions/{name}/events", follow_events},
    route{"GET", "/v1/sessions/{name}/history", read_history},
    route{"GET", "/v1/sessions/{name}/search", search_session},
    route{"POST", "/v1/sessions/{name}/files", take_file},
    route{"POST", "/v1/sessions/{name}/drop", drop_file},
    route{"GET", "/v1/sessions/{name}/drop", list_dropped},
    route{"DELETE", "/v1/sessions/{name}/drop", remove_dropped},
    route{"GET", "/v1/sessions/{name}/outbox", list_outbox},
    route{"POST", "/v1/sessions/{name}/outbox/send", send_outbox},
    route{"GET", "/v1/sessions/{name}/report", show_report},
    route{"GET", "/v1/tasks", list_tasks},
    route{"POST", "/v1/tasks/{id}", report_task},
    route{"POST", "/v1/tasks/{id}/ack", acknowledge_task},
    route{"POST", "/v1/tasks/{id}/nudge", nudge_task},
    route{"POST", "/v1/tasks/{id}/cancel", cancel_task},
    route{"POST", "/v1/tasks/{id}/answer", answer_task},
    route{"POST", "/v1/tasks/{id}/allow", allow_task},
    route{"POST", "/v1/tasks/{id}/decline", decline_task},
    route{"GET", "/.well-known/agent-card.json", show_machine_card},
    route{"GET", "/a2a/{name}/.well-known/agent-card.json", show_session_card},
    route{"POST", "/a2a", call_agent},
    route{"POST", "/a2a/{name}", call_agent},
    route{"GET", "/v1/meshes", list_meshes},
    route{"GET", "/v1/peers", list_peers},
    route{"POST", "/v1/sessions/{name}/voice", not_built},
    route{"POST", "/v1/sessions/{name}/voice/{id}/retry", not_built},
    route{"POST", "/v1/sessions/{name}/transcribe", not_built},
};

} // namespace

route_handler find_session_route(exchange& asked, std::string& allowed) {
    return find_route(routes, asked, allowed);
}

bool is_upload(const http::request& request) {
    return request.method == "POST" && request.path.starts_with("/v1/sessions/") &&
           (request.path.ends_with("/files") || request.path.ends_with("/drop"));
}

std::shared_ptr<session> session_of(services& with, const exchange& asked) {
    std::shared_ptr<session> one = with.listed->get(asked.name);
    if (!asked.shows.sees(one->settings())) session_list::no_such_session(asked.name);
    return one;
}

std::uint64_t query_number(const exchange& asked, const char* key, std::uint64_t most,
                           std::uint64_t otherwise) {
    const auto found = asked.request.query.find(key);
    if (found == asked.request.query.end()) return otherwise;
    std::uint64_t value = 0;
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || text.empty())
        throw bad_request(fmt::format("{}: must be a whole number, not '{}'", key, text));
    return std::min(value, most);
}

task<std::optional<http::response>> not_built(services&, exchange&) {
    co_return answer_error(501, "this agent has no speech-to-text; send text");
}

} // namespace pinfold
