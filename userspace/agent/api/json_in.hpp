// Requests as JSON, read strictly: a key that is not known is an error that names it.
#pragma once

#include "agent/run_request.hpp"

#include <expected>
#include <functional>
#include <string_view>

namespace pinfold {

[[nodiscard]] std::expected<run_request, problem> read_run_request(std::string_view text);
[[nodiscard]] std::expected<command_request, problem> read_exec_request(std::string_view text);
// What to change; what is not named stays.
[[nodiscard]] std::expected<std::function<void(limits_spec&)>, problem> read_limits_request(
    std::string_view text);

} // namespace pinfold
