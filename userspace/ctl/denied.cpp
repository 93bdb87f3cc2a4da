#include "ctl/denied.hpp"

#include "ctl/output.hpp"
#include "ctl/units.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace pinfold::ctl {

using nlohmann::json;

namespace {

constexpr std::size_t most_told = 3;

std::string text_of(const json& from, const char* key) {
    const auto found = from.find(key);
    return found != from.end() && found->is_string() ? printable(found->get<std::string>()) : "";
}

// "tcp 192.168.1.1:80 (private) twice"
std::string group_text(const json& group) {
    const auto count = group.value("count", 1U);
    std::string text = fmt::format("{} ({})", target_of(group), text_of(group, "rule"));
    if (count > 1) text += fmt::format(" {} times", count);
    return text;
}

// As `pinfold why` takes it; empty where it is about no destination.
std::string why_target_of(const json& group) {
    const std::string protocol = text_of(group, "protocol"), address = text_of(group, "address");
    if (address.empty()) return "";
    const bool v6 = address.find(':') != std::string::npos;
    if (protocol == "icmp") return "ping:" + address;
    if (protocol != "tcp" && protocol != "udp") return "";
    return fmt::format("{}:{}{}{}:{}", protocol, v6 ? "[" : "", address, v6 ? "]" : "",
                       group.value("port", 0));
}

} // namespace

std::string target_of(const json& denial) {
    const std::string act = text_of(denial, "act");
    if (act == "socket")
        return fmt::format("socket of family {} type {} protocol {}", denial.value("family", 0),
                           denial.value("type", 0), text_of(denial, "protocol"));
    if (act == "option")
        return fmt::format("option {} of level {}", denial.value("option", 0), denial.value("level", 0));
    const std::string address = text_of(denial, "address"), protocol = text_of(denial, "protocol");
    if (protocol == "icmp") return "ping " + address;
    const bool v6 = address.find(':') != std::string::npos;
    return fmt::format("{} {}{}{}:{}", protocol, v6 ? "[" : "", address, v6 ? "]" : "",
                       denial.value("port", 0));
}

bool may_tell_denials(const json& end) {
    if (end.value("denials", std::uint64_t{0}) == 0) return false;
    return ::isatty(STDERR_FILENO) == 1 || end.value("status", 0) != 0;
}

void tell_denials(const json& end, const std::string& name) {
    const std::uint64_t denials = end.value("denials", std::uint64_t{0});
    const json groups = end.value("denied", json::array());
    std::string what, target;
    std::size_t told = 0;
    for (const json& group : groups) {
        if (!group.is_object()) continue;
        if (target.empty()) target = why_target_of(group);
        if (told++ < most_told) what += (what.empty() ? ": " : ", ") + group_text(group);
    }
    if (groups.size() > most_told) what += ", …";
    fmt::print(stderr, "{} {} {} refused{}; 'pinfold denials {}' lists them",
               paint(stderr, colour::yellow, "pinfold:"), denials, denials == 1 ? "act was" : "acts were",
               what, name);
    const std::string mode = text_of(end, "mode");
    if (!target.empty() && !mode.empty())
        fmt::print(stderr, ", 'pinfold why --{} {}' explains", mode, target);
    fmt::print(stderr, "\n");
}

} // namespace pinfold::ctl
