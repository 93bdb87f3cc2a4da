#include "agent/api/services.hpp"
#include "agent/explanation.hpp"
#include "spec/rules.hpp"

#include <netinet/in.h>
#include <nlohmann/json.hpp>

namespace pinfold {

using nlohmann::json;

namespace {

json to_json(const why_origin& from) {
    if (from.kind.empty()) return nullptr;
    json result{{"kind", from.kind}};
    for (const auto& [key, value] : {std::pair{"text", &from.text},
                                     {"name", &from.name},
                                     {"source", &from.source},
                                     {"device", &from.device},
                                     {"via", &from.via}}) {
        if (!value->empty()) result[key] = *value;
    }
    if (from.table != 0) result["table"] = from.table;
    return result;
}

const char* protocol_name(int protocol) {
    return protocol == IPPROTO_TCP ? "tcp" : protocol == IPPROTO_UDP ? "udp" : "ping";
}

json wall_json(const std::optional<std::uint32_t>& rule) {
    if (!rule) return nullptr;
    return {{"refuses", *rule != 0}, {"rule", text_of_rule(*rule).name}};
}

json to_json(const explanation& from) {
    std::string address = from.target.to.text();
    address.erase(address.rfind(':'));
    if (address.starts_with('[')) address = address.substr(1, address.size() - 2);
    json result{{"cage", from.cage.empty() ? json(nullptr) : json(from.cage)},
                {"mode", to_string(from.mode)},
                {"target", from.target.text},
                {"protocol", protocol_name(from.target.protocol)},
                {"address", address},
                {"port", from.target.to.port},
                {"allowed", from.allowed},
                {"why", from.why},
                {"origin", to_json(from.origin)},
                {"walls", {{"guards", wall_json(from.guards)}, {"relay", wall_json(from.relay)}}}};
    if (from.allowed) return result;
    result.update({{"wall", from.wall},
                   {"rule", from.rule != 0 ? json(text_of_rule(from.rule).name) : json(nullptr)},
                   {"feels", from.feels},
                   {"remedy", from.remedy}});
    return result;
}

// {"target", "mode"?} of the query.
std::expected<why_target, problem> target_of(const http::request& request, bool with_mode) {
    for (const auto& [key, value] : request.query) {
        if (key != "target" && !(with_mode && key == "mode"))
            return std::unexpected(problem{key, "is not a key that is known here"});
    }
    const auto found = request.query.find("target");
    if (found == request.query.end())
        return std::unexpected(problem{"target", "must be given: tcp:192.168.1.1:80"});
    return parse_why_target(found->second);
}

} // namespace

task<std::optional<http::response>> why_cage(services& with, exchange& asked) {
    const auto target = target_of(asked.request, false);
    if (!target) co_return answer_error(400, target.error().text());
    co_return answer_json(to_json(co_await explain_cage(with.owned, asked.name, *target)));
}

task<std::optional<http::response>> why_mode(services& with, exchange& asked) {
    const auto target = target_of(asked.request, true);
    if (!target) co_return answer_error(400, target.error().text());
    const auto mode = asked.request.query.find("mode");
    const std::string_view named = mode == asked.request.query.end() ? "" : std::string_view(mode->second);
    if (named != "sealed" && named != "caged" && named != "uncaged")
        co_return answer_error(400, "mode: must be 'sealed', 'caged' or 'uncaged'");
    const run_mode wanted = named == "sealed"  ? run_mode::sealed
                            : named == "caged" ? run_mode::caged
                                               : run_mode::uncaged;
    co_return answer_json(to_json(co_await explain_mode(with.owned, wanted, *target)));
}

} // namespace pinfold
