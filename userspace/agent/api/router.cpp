#include "agent/api/router.hpp"

#include "agent/api/browser.hpp"
#include "agent/api/route.hpp"
#include "agent/api/session_routes.hpp"
#include "agent/api/task_routes.hpp"
#include "agent/tasks/task_board.hpp"

#include <array>
#include <spdlog/spdlog.h>

namespace pinfold {

namespace {

constexpr std::array routes{
    route{"GET", "/v1/version", get_version},
    route{"GET", "/v1/cages", list_cages},
    route{"POST", "/v1/cages", run_cage},
    route{"GET", "/v1/cages/{name}", get_cage},
    route{"DELETE", "/v1/cages/{name}", remove_cage},
    route{"POST", "/v1/cages/{name}/exec", exec_in_cage},
    route{"POST", "/v1/cages/{name}/limits", change_limits},
    route{"POST", "/v1/plan", plan_cage},
    route{"GET", "/v1/denials", list_denials},
    route{"GET", "/v1/doctor", run_doctor},
    route{"GET", "/v1/cages/{name}/why", why_cage},
    route{"GET", "/v1/why", why_mode},
};

http::response unknown_path(const std::string& path) {
    return answer_error(404, fmt::format("there is nothing at {}; docs/api.md lists the routes", path));
}

} // namespace

task<std::optional<http::response>> answer(services& with, exchange& asked) {
    if (auto refusal = refuse_browser(asked.request, asked.by.empty() ? nullptr : &with.hosts))
        co_return refusal;
    // Its own agent says this of a cage's request. A cage makes, changes and deletes nothing, whatever it asks; it may ask
    // agents, report on its tasks and send a file, and each of these looks at who it is.
    if (asked.request.fields.contains("x-shrooms-caged") && asked.request.method != "GET" &&
        !may_come_from_cage(asked.request))
        co_return answer_error(403, "a caged agent changes nothing here");
    std::string allowed;
    route_handler handler = find_route(routes, asked, allowed);
    if (allowed.empty() && with.listed != nullptr) handler = find_session_route(asked, allowed);
    if (allowed.empty()) co_return unknown_path(asked.request.path);
    if (handler == nullptr) {
        http::response refusal = answer_error(405,
                                              fmt::format("{} takes only {}", asked.request.path, allowed));
        refusal.fields.emplace_back("Allow", allowed);
        co_return refusal;
    }
    std::exception_ptr error;
    try {
        if (with.tasks != nullptr) asked.shows = co_await with.tasks->who_looks(asked.by);
        co_return co_await handler(with, asked);
    } catch (...) {
        error = std::current_exception();
    }
    const explained why = explain(error);
    if (why.http_status == 500)
        spdlog::error("{} {}: {}", asked.request.method, asked.request.path, why.text);
    co_return answer_error(why.http_status, why.text);
}

} // namespace pinfold
