// Answers as every route gives them: JSON, and {"error": text} for what failed.
#pragma once

#include "agent/api/http.hpp"

#include <exception>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace pinfold {

[[nodiscard]] http::response answer_json(const nlohmann::json& body, int status = 200);
[[nodiscard]] http::response answer_error(int status, std::string_view text);

struct explained {
    int http_status = 500;
    int exit_status = 125; // what `pinfold run` ends with
    std::string text;
};
// What an exception means to whoever asked: 400, 404, 409, 422 for the keeper's no, 503 without a keeper, else 500.
[[nodiscard]] explained explain(const std::exception_ptr& error);

// One line, whatever bytes it holds.
[[nodiscard]] std::string to_line(const nlohmann::json& from);

} // namespace pinfold
