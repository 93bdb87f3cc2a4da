#include "agent/api/json_out.hpp"

#include "spec/ranges.hpp"
#include "spec/rules.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>

namespace pinfold {

using nlohmann::json;

namespace {

std::string address_text(const pinfold_denial& what) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    const int family = what.family == AF_INET6 ? AF_INET6 : AF_INET;
    return ::inet_ntop(family, static_cast<const __u8*>(what.address), text.data(), text.size()) != nullptr
               ? text.data()
               : "";
}

std::string protocol_name(const pinfold_denial& what) {
    switch (what.protocol) {
    case IPPROTO_TCP: return "tcp";
    case IPPROTO_UDP: return "udp";
    case IPPROTO_ICMP:
    case IPPROTO_ICMPV6: return "icmp";
    default: return std::to_string(what.protocol);
    }
}

// Of its rule some ranges are refused in every mode, so that another mode is no remedy.
bool is_never_allowed(const pinfold_denial& what) {
    std::array<std::uint32_t, 4> words{};
    std::memcpy(words.data(), static_cast<const __u8*>(what.address), sizeof words);
    for (std::uint32_t& word : words) word = ntohl(word);
    const auto range = range_of(std::span(words).first(what.family == AF_INET ? 1 : 4));
    return range && range->rule == what.rule && range->never;
}

std::string comm_text(const pinfold_denial& what) {
    const auto* end = std::ranges::find(what.comm, '\0');
    return {static_cast<const char*>(what.comm), end};
}

json with_own(json into, const cage_record& own) {
    into["denials"] = own.denials;
    if (own.id != 0) into["notes"] = own.notes;
    return into;
}

} // namespace

std::string to_rfc3339(std::uint64_t unix_seconds) {
    const auto seconds = static_cast<std::time_t>(unix_seconds);
    std::tm parts{};
    std::array<char, 32> text{};
    ::gmtime_r(&seconds, &parts);
    std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text.data();
}

json to_json(const limits_spec& limits) {
    return {
        {"memory", limits.memory_bytes}, {"cpus", limits.cpu_percent / 100.0}, {"pids", limits.processes}};
}

json to_json(const denial_entry& entry) {
    const pinfold_denial& what = entry.what;
    const rule_text words = text_of_rule(what.rule);
    json result{{"time", to_rfc3339(entry.unix_nanoseconds / 1'000'000'000U)},
                {"cage", entry.cage},
                {"pid", what.pid},
                {"comm", comm_text(what)},
                {"act", name_of_act(what.act)},
                {"wall", entry.wall},
                {"rule", words.name},
                {"why", words.reason}};
    if (!words.remedy.empty() && !is_never_allowed(what)) result["remedy"] = words.remedy;
    switch (what.act) {
    case PINFOLD_ACT_SOCKET:
        result.update({{"family", what.family}, {"type", what.type}, {"protocol", protocol_name(what)}});
        break;
    case PINFOLD_ACT_OPTION: result.update({{"level", what.type}, {"option", what.protocol}}); break;
    default:
        result.update(
            {{"protocol", protocol_name(what)}, {"address", address_text(what)}, {"port", what.port}});
        break;
    }
    return result;
}

json to_json(const relay_figures& figures) {
    return {{"tcp_flows", figures.tcp_flows}, {"udp_flows", figures.udp_flows},  {"opened", figures.opened},
            {"refused", figures.refused},     {"failed", figures.failed},        {"dropped", figures.dropped},
            {"bytes_up", figures.bytes_up},   {"bytes_down", figures.bytes_down}};
}

json to_json(const wire::cage_state& state, const cage_record* own) {
    json result{{"name", state.name},
                {"cage", cage_id_text(state.cage)},
                {"mode", to_string(state.mode)},
                {"state", state.state},
                {"dir", state.project},
                {"image", state.image},
                {"limits", to_json(state.limits)},
                {"owner", state.owner},
                {"pid", state.first_pid},
                {"id_base", state.id_base},
                {"started", state.started_unix != 0 ? json(to_rfc3339(state.started_unix)) : json(nullptr)},
                {"memory", state.memory_bytes},
                {"processes", state.processes},
                {"adopted", state.adopted},
                {"notes", state.notes},
                {"denials", 0}};
    return own != nullptr ? with_own(std::move(result), *own) : result;
}

json to_json(const cage_record& known) {
    const bool caged = known.mode != run_mode::uncaged;
    json result{{"name", known.name},
                {"cage", known.id != 0 ? json(cage_id_text(known.id)) : json(nullptr)},
                {"mode", to_string(known.mode)},
                {"state", known.first ? "running" : "building"},
                {"dir", known.directory.native()},
                {"started", known.started_unix != 0 ? json(to_rfc3339(known.started_unix)) : json(nullptr)},
                {"pid", known.pid},
                {"notes", known.notes},
                {"denials", known.denials}};
    if (caged) result.update({{"image", known.image}, {"limits", to_json(known.limits)}});
    return result;
}

} // namespace pinfold
