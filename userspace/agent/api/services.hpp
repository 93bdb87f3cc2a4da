// What every route works with: the cages, the connections that carry streams, and one request with its connection.
#pragma once

#include "agent/api/answers.hpp"
#include "agent/api/buffers.hpp"
#include "agent/api/http.hpp"
#include "agent/api/stdio.hpp"
#include "agent/cages.hpp"
#include "agent/tasks/asker.hpp"

#include <optional>
#include <set>

namespace pinfold {

class session_list;
class task_board;
class outbox_carrier;
class project_reports;

// An answer that holds as long as nothing of it changes: rows of the store, and what sessions do not keep there.
struct kept_answer {
    std::int64_t rows = -1, until = INT64_MAX; // seconds since 1970
    std::uint64_t passing = 0;
    std::shared_ptr<const std::string> text;
};

struct services {
    cages& owned;
    buffer_pool buffers;
    std::set<stdio_session*> sessions; // who is told when the agent stops
    bool stopping = false;
    session_list* listed = nullptr;
    task_board* tasks = nullptr; // of those sessions
    outbox_carrier* outboxes = nullptr;
    project_reports* reports = nullptr; // on their projects
    kept_answer session_list_answer;    // to GET /v1/sessions, as long as nothing changes
    std::vector<std::string> hosts;     // what a request over TCP may name as its Host, without the port
};

// One request. A route that upgrades or streams takes the connection over and answers nothing more.
struct exchange {
    http::request request;
    std::string name; // the {name} of the route
    std::string id;   // its {id}
    std::string by;   // the address it came from; empty = the owner's socket
    viewer shows;     // the sessions it is told of
    int client = -1;
    std::string early; // bytes behind the request
};

using route_handler = task<std::optional<http::response>> (*)(services&, exchange&);

task<std::optional<http::response>> get_version(services&, exchange&);
task<std::optional<http::response>> list_cages(services&, exchange&);
task<std::optional<http::response>> run_cage(services&, exchange&);
task<std::optional<http::response>> get_cage(services&, exchange&);
task<std::optional<http::response>> remove_cage(services&, exchange&);
task<std::optional<http::response>> exec_in_cage(services&, exchange&);
task<std::optional<http::response>> change_limits(services&, exchange&);
task<std::optional<http::response>> plan_cage(services&, exchange&);
task<std::optional<http::response>> list_denials(services&, exchange&);
task<std::optional<http::response>> run_doctor(services&, exchange&);
task<std::optional<http::response>> why_cage(services&, exchange&);
task<std::optional<http::response>> why_mode(services&, exchange&);

} // namespace pinfold
