// Tables of routes, and how a path finds its own.
#pragma once

#include "agent/api/services.hpp"

#include <span>
#include <string_view>

namespace pinfold {

struct route {
    std::string_view method;
    std::string_view path; // {name} and {id} stand for one segment each
    route_handler handler;
};

// The handler of this request, or null; `allowed` gets the methods that its path has.
[[nodiscard]] route_handler find_route(std::span<const route> table, exchange& asked, std::string& allowed);

} // namespace pinfold
