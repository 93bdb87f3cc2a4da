#include "agent/api/answers.hpp"

#include "agent/cages.hpp"
#include "agent/sessions/options.hpp"
#include "agent/store/database.hpp"

#include <nlohmann/json.hpp>

namespace pinfold {

namespace {

// As shells say it: 127 not found, 126 found but not to be executed. The keeper says "run PROGRAM in cage NAME: reason"
// of the last step and of no other.
int exit_status_of(std::string_view text) {
    if (!text.starts_with("exec ") &&
        (!text.starts_with("run ") || text.find(" in cage ") == std::string_view::npos))
        return 125;
    const std::string_view reason = text.substr(text.rfind(": ") + 2);
    if (reason == "No such file or directory" || reason == "Not a directory") return 127;
    for (const char* each : {"Permission denied", "Exec format error", "Is a directory", "Text file busy"}) {
        if (reason == each) return 126;
    }
    return 125;
}

} // namespace

std::string to_line(const nlohmann::json& from) {
    return from.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

http::response answer_json(const nlohmann::json& body, int status) {
    return {.status = status, .body = to_line(body)};
}

http::response answer_error(int status, std::string_view text) {
    return answer_json({{"error", text}}, status);
}

explained explain(const std::exception_ptr& error) {
    try {
        std::rethrow_exception(error);
    } catch (const session_refusal& what) {
        return {.http_status = what.status(), .text = what.what()};
    } catch (const store_failure& what) {
        return {.http_status = 503, .text = what.what()};
    } catch (const bad_request& what) {
        return {.http_status = 400, .text = what.what()};
    } catch (const unknown_cage& what) {
        return {.http_status = 404, .text = what.what()};
    } catch (const name_taken& what) {
        return {.http_status = 409, .text = what.what()};
    } catch (const keeper_refused& what) {
        return {.http_status = 422, .exit_status = exit_status_of(what.what()), .text = what.what()};
    } catch (const keeper_unreachable& what) {
        return {.http_status = 503, .text = what.what()};
    } catch (const exec_failure& what) {
        return {.http_status = 422, .exit_status = what.status(), .text = what.what()};
    } catch (const std::exception& what) {
        return {.text = what.what()};
    }
}

} // namespace pinfold
