#include "agent/api/router.hpp"

#include "agent/api/browser.hpp"
#include "agent/api/session_routes.hpp"
#include "agent/api/task_routes.hpp"

#include <array>
#include <spdlog/spdlog.h>

namespace pinfold {

namespace {

struct route {
    std::string_view method;
    std::string_view path; // {name} stands for one segment
    route_handler handler;
};

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

bool matches(std::string_view pattern, std::string_view path, std::string& name) {
    constexpr std::string_view mark = "{name}";
    const std::size_t at = pattern.find(mark);
    if (at == std::string_view::npos) return pattern == path;
    const std::string_view before = pattern.substr(0, at), after = pattern.substr(at + mark.size());
    if (path.size() <= before.size() + after.size() || !path.starts_with(before) || !path.ends_with(after))
        return false;
    const std::string_view found = path.substr(before.size(), path.size() - before.size() - after.size());
    if (found.find('/') != std::string_view::npos) return false;
    name = found;
    return true;
}

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
    route_handler handler = nullptr;
    for (const route& each : routes) {
        std::string name;
        if (!matches(each.path, asked.request.path, name)) continue;
        asked.name = name;
        if (each.method == asked.request.method) handler = each.handler;
        allowed += (allowed.empty() ? "" : ", ") + std::string(each.method);
    }
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
