#include "agent/api/session_routes.hpp"
#include "agent/api/outbox_routes.hpp"
#include "agent/api/task_routes.hpp"

#include <array>
#include <charconv>

namespace pinfold {

namespace {

struct session_route {
    std::string_view method;
    std::string_view path; // {name} and {id} stand for one segment each
    route_handler handler;
};

constexpr std::array routes{
    session_route{"GET", "/v1/harnesses", list_harnesses},
    session_route{"GET", "/v1/sessions", list_sessions},
    session_route{"POST", "/v1/sessions", create_session},
    session_route{"GET", "/v1/sessions/{name}", get_session},
    session_route{"DELETE", "/v1/sessions/{name}", delete_session},
    session_route{"PATCH", "/v1/sessions/{name}", change_session},
    session_route{"POST", "/v1/sessions/{name}/settings", change_session},
    session_route{"POST", "/v1/sessions/{name}/rename", rename_session},
    session_route{"POST", "/v1/sessions/{name}/restart", restart_session},
    session_route{"POST", "/v1/sessions/{name}/cage", move_session},
    session_route{"POST", "/v1/sessions/{name}/cage/limits", limit_session},
    session_route{"POST", "/v1/sessions/{name}/messages", send_message},
    session_route{"POST", "/v1/sessions/{name}/prompts/{id}", answer_prompt},
    session_route{"POST", "/v1/sessions/{name}/interrupt", interrupt_session},
    session_route{"GET", "/v1/sessions/{name}/events", follow_events},
    session_route{"GET", "/v1/sessions/{name}/history", read_history},
    session_route{"GET", "/v1/sessions/{name}/search", search_session},
    session_route{"POST", "/v1/sessions/{name}/files", take_file},
    session_route{"POST", "/v1/sessions/{name}/drop", drop_file},
    session_route{"GET", "/v1/sessions/{name}/drop", list_dropped},
    session_route{"DELETE", "/v1/sessions/{name}/drop", remove_dropped},
    session_route{"GET", "/v1/sessions/{name}/outbox", list_outbox},
    session_route{"POST", "/v1/sessions/{name}/outbox/send", send_outbox},
    session_route{"GET", "/v1/sessions/{name}/report", show_report},
    session_route{"GET", "/v1/tasks", list_tasks},
    session_route{"POST", "/v1/tasks/{id}", report_task},
    session_route{"POST", "/v1/tasks/{id}/ack", acknowledge_task},
    session_route{"POST", "/v1/tasks/{id}/nudge", nudge_task},
    session_route{"POST", "/v1/tasks/{id}/cancel", cancel_task},
    session_route{"POST", "/v1/tasks/{id}/answer", answer_task},
    session_route{"POST", "/v1/tasks/{id}/allow", allow_task},
    session_route{"POST", "/v1/tasks/{id}/decline", decline_task},
    session_route{"GET", "/.well-known/agent-card.json", show_machine_card},
    session_route{"GET", "/a2a/{name}/.well-known/agent-card.json", show_session_card},
    session_route{"POST", "/a2a", call_agent},
    session_route{"POST", "/a2a/{name}", call_agent},
    session_route{"GET", "/v1/meshes", list_meshes},
    session_route{"GET", "/v1/peers", list_peers},
    session_route{"POST", "/v1/sessions/{name}/voice", not_built},
    session_route{"POST", "/v1/sessions/{name}/voice/{id}/retry", not_built},
    session_route{"POST", "/v1/sessions/{name}/transcribe", not_built},
};

// Segment by segment: a decoded '/' in a name makes another path, and never another session.
bool matches(std::string_view pattern, std::string_view path, std::string& name, std::string& id) {
    while (!pattern.empty() && !path.empty()) {
        const std::string_view wanted = pattern.substr(0, pattern.find('/', 1));
        const std::string_view found = path.substr(0, path.find('/', 1));
        if (wanted == "/{name}" && found.size() > 1)
            name = found.substr(1);
        else if (wanted == "/{id}" && found.size() > 1)
            id = found.substr(1);
        else if (wanted != found)
            return false;
        pattern.remove_prefix(wanted.size());
        path.remove_prefix(found.size());
    }
    return pattern.empty() && path.empty();
}

} // namespace

route_handler find_session_route(exchange& asked, std::string& allowed) {
    route_handler handler = nullptr;
    for (const session_route& each : routes) {
        std::string name, id;
        if (!matches(each.path, asked.request.path, name, id)) continue;
        asked.name = name;
        asked.id = id;
        if (each.method == asked.request.method) handler = each.handler;
        allowed += (allowed.empty() ? "" : ", ") + std::string(each.method);
    }
    return handler;
}

bool is_upload(const http::request& request) {
    return request.method == "POST" && request.path.starts_with("/v1/sessions/") &&
           (request.path.ends_with("/files") || request.path.ends_with("/drop"));
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
