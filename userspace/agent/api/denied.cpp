// What a program that has ended was refused, in a few lines for who ran it.
#include "agent/api/json_out.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ranges>
#include <vector>

namespace pinfold {

using nlohmann::json;

// Equal ones count together, the latest first.
json denied_summary(const denial_log& from, std::uint64_t cage) {
    constexpr std::size_t most = 8;
    json groups = json::array();
    for (const auto& entry : from.entries() | std::views::reverse) {
        if (entry.what.cage != cage) continue;
        json one = to_json(entry);
        for (const char* key : {"time", "cage", "pid", "comm", "why", "remedy"}) one.erase(key);
        const auto known = std::ranges::find_if(groups, [&](const json& group) {
            json bare = group;
            bare.erase("count");
            return bare == one;
        });
        if (known != groups.end()) {
            (*known)["count"] = known->value("count", 0U) + 1;
        } else if (groups.size() < most) {
            one["count"] = 1;
            groups.push_back(std::move(one));
        }
    }
    return groups;
}

} // namespace pinfold
