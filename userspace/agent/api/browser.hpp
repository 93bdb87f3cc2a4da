// What a web page may not do to the agent: a page that the owner looks at must not reach the API through the browser.
#pragma once

#include "agent/api/http.hpp"

#include <optional>
#include <string>
#include <vector>

namespace pinfold {

// The refusal, or nothing where the request may go on. `hosts`: what this agent is called where it listens at an address
// of the network; null at the owner's socket, which has no host.
[[nodiscard]] std::optional<http::response> refuse_browser(const http::request& request,
                                                           const std::vector<std::string>* hosts = nullptr);

} // namespace pinfold
