#include "agent/proxy/machines.hpp"

#include "agent/proxy/peer.hpp"
#include "base/file.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace pinfold {

namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr std::chrono::seconds fresh_for = 5s;
constexpr std::size_t largest_status = std::size_t{1} << 20;

std::string text_of(const json& from, const char* key) {
    const auto found = from.is_object() ? from.find(key) : from.end();
    return from.is_object() && found != from.end() && found->is_string() ? found->get<std::string>()
                                                                         : std::string();
}

// A machine's name ends at its first dot: what follows names its mesh or its domain.
std::string short_name(const std::string& name) {
    return name.substr(0, name.find('.'));
}

// A peer on two meshes is one machine: the first address counts.
void add(std::vector<machine>& to, std::string name, std::string addr) {
    name = short_name(name);
    if (name.empty() || !is_address(addr)) return;
    if (std::ranges::find(to, name, &machine::name) == to.end())
        to.push_back({std::move(name), std::move(addr)});
}

} // namespace

std::vector<machine> parse_peers(std::string_view text) {
    const json whole = json::parse(text, nullptr, false);
    const auto list = whole.is_object() ? whole.find("machines") : whole.end();
    if (!whole.is_object() || list == whole.end() || !list->is_array())
        fail("the peers file: an object with a list \"machines\" is expected");
    std::vector<machine> made;
    for (const json& each : *list) {
        machine one{.name = short_name(text_of(each, "name")), .addr = text_of(each, "addr")};
        if (one.name.empty() || one.name.find_first_of("/ \r\n") != std::string::npos ||
            !is_address(one.addr))
            fail("the peers file: each machine has a \"name\" and an \"addr\", a numeric address; see {}",
                 each.dump());
        if (std::ranges::find(made, one.name, &machine::name) != made.end())
            fail("the peers file: {} stands there twice", one.name);
        made.push_back(std::move(one));
    }
    if (made.empty()) fail("the peers file names no machine; this one comes first");
    return made;
}

std::vector<machine> parse_status(std::string_view text) {
    const json whole = json::parse(text, nullptr, false);
    std::vector<machine> made;
    const auto each_of = [&](const char* key, auto&& take) {
        const auto list = whole.is_object() ? whole.find(key) : whole.end();
        if (whole.is_object() && list != whole.end() && list->is_array())
            for (const json& each : *list) take(each);
    };
    const std::string self = text_of(whole, "name");
    each_of("meshes", [&](const json& mesh) { add(made, self, text_of(mesh, "overlay")); });
    if (made.empty()) fail("the shrooms daemon names no mesh of this machine");
    each_of("peers", [&](const json& peer) { add(made, text_of(peer, "name"), text_of(peer, "overlay")); });
    return made;
}

task<std::string> machine_list::ask_daemon() {
    peer daemon(ring_);
    co_await daemon.connect(from_.daemon);
    co_await daemon.send("GET /status HTTP/1.1\r\nHost: unix\r\nConnection: close\r\n\r\n");
    const peer::answer head = co_await daemon.read_head(5s);
    std::string body;
    while (body.size() <= largest_status) {
        const std::string part = co_await daemon.read_body();
        if (part.empty()) break;
        body += part;
    }
    if (head.status != 200) fail("the shrooms daemon answers {} to /status", head.status);
    co_return body;
}

task<std::vector<machine>> machine_list::read() {
    const auto now = std::chrono::steady_clock::now();
    if (now < known_until_) co_return known_;
    std::error_code none;
    if (!from_.daemon.empty() && std::filesystem::exists(from_.daemon, none))
        known_ = parse_status(co_await ask_daemon());
    else if (!from_.peers.empty() && std::filesystem::exists(from_.peers, none))
        known_ = parse_peers(read_file(from_.peers));
    else
        known_ = {{short_name(from_.name), "::1"}}; // alone: its own agent is still to be asked
    known_until_ = now + fresh_for;
    co_return known_;
}

} // namespace pinfold
