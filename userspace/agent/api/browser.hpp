// What a web page may not do to the agent: a page that the owner looks at must not reach the API through the browser.
#pragma once

#include "agent/api/http.hpp"

#include <optional>

namespace pinfold {

// The refusal, or nothing where the request may go on.
[[nodiscard]] std::optional<http::response> refuse_browser(const http::request& request);

} // namespace pinfold
