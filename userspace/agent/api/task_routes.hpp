// The routes of tasks and of files between agents; they stand in the table of session_routes.cpp.
#pragma once

#include "agent/api/services.hpp"
#include "agent/sessions/session.hpp"

#include <nlohmann/json_fwd.hpp>

namespace pinfold {

task<std::optional<http::response>> call_agent(services&, exchange&); // A2A
task<std::optional<http::response>> show_machine_card(services&, exchange&);
task<std::optional<http::response>> show_session_card(services&, exchange&);
task<std::optional<http::response>> report_task(services&, exchange&);
task<std::optional<http::response>> acknowledge_task(services&, exchange&);
task<std::optional<http::response>> nudge_task(services&, exchange&);
task<std::optional<http::response>> cancel_task(services&, exchange&);
task<std::optional<http::response>> answer_task(services&, exchange&);
task<std::optional<http::response>> allow_task(services&, exchange&);
task<std::optional<http::response>> decline_task(services&, exchange&);
task<std::optional<http::response>> drop_file(services&, exchange&);
task<std::optional<http::response>> list_dropped(services&, exchange&);
task<std::optional<http::response>> remove_dropped(services&, exchange&);

// What a session's tasks and refused files add to it.
void show_tasks(services& with, const session& one, nlohmann::json& into);

// The caged session that asks, as its own agent says; empty = none does. A header without a name is a cage's all the same.
[[nodiscard]] std::string caged_session(const http::request& request);

// All that may come from a cage, through its own agent: asking, reporting and sending a file.
[[nodiscard]] bool may_come_from_cage(const http::request& request);

} // namespace pinfold
