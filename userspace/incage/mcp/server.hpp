// The Model Context Protocol over lines: one JSON-RPC object each, in and out.
#pragma once

#include "incage/mcp/tools.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace pinfold::mcp {

// The answer to a line, without its end; nothing for a notification.
[[nodiscard]] std::optional<std::string> answer_line(std::string_view line, const tools& with);

} // namespace pinfold::mcp
