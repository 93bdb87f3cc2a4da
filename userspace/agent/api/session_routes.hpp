// The routes of sessions: the table that the router looks into behind its own.
#pragma once

#include "agent/api/services.hpp"
#include "agent/sessions/session_list.hpp"

#include <nlohmann/json_fwd.hpp>

namespace pinfold {

// The handler of this request, or null; `allowed` gets the methods that its path has.
[[nodiscard]] route_handler find_session_route(exchange& asked, std::string& allowed);

// May its body be more than JSON is allowed: a file that is sent to a session.
[[nodiscard]] bool is_upload(const http::request& request);

// The session of the path. Throws session_refusal (404), also where it is limited to meshes that the caller is not on.
[[nodiscard]] std::shared_ptr<session> session_of(services& with, const exchange& asked);

[[nodiscard]] nlohmann::json to_json(const session& one, const session_world::settings& with);

// The value of a number in the query between 1 and `most`, or `otherwise` where it is not there. Throws bad_request.
[[nodiscard]] std::uint64_t query_number(const exchange& asked, const char* key, std::uint64_t most,
                                         std::uint64_t otherwise);

task<std::optional<http::response>> list_harnesses(services&, exchange&);
task<std::optional<http::response>> list_sessions(services&, exchange&);
task<std::optional<http::response>> create_session(services&, exchange&);
task<std::optional<http::response>> get_session(services&, exchange&);
task<std::optional<http::response>> delete_session(services&, exchange&);
task<std::optional<http::response>> change_session(services&, exchange&);
task<std::optional<http::response>> rename_session(services&, exchange&);
task<std::optional<http::response>> restart_session(services&, exchange&);
task<std::optional<http::response>> move_session(services&, exchange&);
task<std::optional<http::response>> limit_session(services&, exchange&);
task<std::optional<http::response>> send_message(services&, exchange&);
task<std::optional<http::response>> answer_prompt(services&, exchange&);
task<std::optional<http::response>> interrupt_session(services&, exchange&);
task<std::optional<http::response>> follow_events(services&, exchange&);
task<std::optional<http::response>> read_history(services&, exchange&);
task<std::optional<http::response>> search_session(services&, exchange&);
task<std::optional<http::response>> take_file(services&, exchange&);
task<std::optional<http::response>> list_tasks(services&, exchange&);
task<std::optional<http::response>> list_meshes(services&, exchange&);
task<std::optional<http::response>> list_peers(services&, exchange&);
task<std::optional<http::response>> not_built(services&, exchange&);

} // namespace pinfold
