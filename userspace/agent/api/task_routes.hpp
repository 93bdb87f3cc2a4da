// The routes of tasks and of files between agents; they stand in the table of session_routes.cpp.
#pragma once

#include "agent/api/services.hpp"
#include "agent/sessions/session.hpp"
#include "agent/tasks/task_row.hpp"

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>

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

// What tasks and refused files add to their sessions: of one, or of all with as many questions to the store.
class shown_tasks {
public:
    explicit shown_tasks(services& with);
    shown_tasks(services& with, const session& only);
    void add(const session& to, nlohmann::json& into) const;

private:
    void count(std::span<const task_row> open);

    struct counts {
        std::size_t open = 0, stalled = 0, held = 0;
    };
    std::map<std::int64_t, counts> counts_; // by session
    std::multimap<std::int64_t, file_request> requests_;
};

// The caged session that asks, as its own agent says; empty = none does. A header without a name is a cage's all the same.
[[nodiscard]] std::string caged_session(const http::request& request);

// All that may come from a cage, through its own agent: asking, reporting and sending a file.
[[nodiscard]] bool may_come_from_cage(const http::request& request);

} // namespace pinfold
