#include "agent/api/route.hpp"

namespace pinfold {

namespace {

// Segment by segment: a decoded '/' in a name makes another path, and never another session.
bool matches(std::string_view pattern, std::string_view path, std::string& name, std::string& id) {
    while (!pattern.empty() && !path.empty()) {
        const std::string_view wanted = pattern.substr(0, pattern.find('/', 1));
        const std::string_view found = path.substr(0, path.find('/', 1));
        if (wanted == "/{name}" && found.size() > 1)
            name = found.substr(1);
        else if (wanted == "/{id}" && found.size() > 1)
            id = found.substr(1);
        else if (wanted != found)
            return false;
        pattern.remove_prefix(wanted.size());
        path.remove_prefix(found.size());
    }
    return pattern.empty() && path.empty();
}

} // namespace

route_handler find_route(std::span<const route> table, exchange& asked, std::string& allowed) {
    route_handler handler = nullptr;
    for (const route& each : table) {
        std::string name, id;
        if (!matches(each.path, asked.request.path, name, id)) continue;
        asked.name = name;
        asked.id = id;
        if (each.method == asked.request.method) handler = each.handler;
        allowed += (allowed.empty() ? "" : ", ") + std::string(each.method);
    }
    return handler;
}

} // namespace pinfold
