// The agent's whole HTTP surface: one table of method, path and handler.
#pragma once

#include "agent/api/services.hpp"

namespace pinfold {

// The answer to one request, or nothing where the connection was taken over. Never throws.
task<std::optional<http::response>> answer(services& with, exchange& asked);

} // namespace pinfold
