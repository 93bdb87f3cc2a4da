#include "agent/api/answers.hpp"

#include "agent/cages.hpp"

#include <nlohmann/json.hpp>

namespace pinfold {

namespace {

// As shells say it: 127 not found, 126 found but not to be executed. The keeper's text names the failed exec.
int exit_status_of(std::string_view text) {
    const std::size_t at = text.find("exec ");
    if (at == std::string_view::npos) return 125;
    if (text.find("No such file", at) != std::string_view::npos) return 127;
    for (const char* reason : {"Permission denied", "Exec format", "Is a directory", "Text file busy"}) {
        if (text.find(reason, at) != std::string_view::npos) return 126;
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
