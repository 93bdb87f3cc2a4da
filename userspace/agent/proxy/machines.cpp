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
void add(std::vector<machine>& to, const machine& one) {
    if (std::ranges::find(to, one.name, &machine::name) == to.end()) to.push_back(one);
}

mesh* find_mesh(known_machines& in, const std::string& label) {
    const auto found = std::ranges::find(in.meshes, label, &mesh::label);
    return found == in.meshes.end() ? nullptr : &*found;
}

void add(known_machines& to, const machine& one, const std::string& label, bool is_own) {
    add(to.machines, one);
    if (label.empty()) return;
    if (find_mesh(to, label) == nullptr) to.meshes.push_back({.label = label, .own = {}, .peers = {}});
    mesh& where = *find_mesh(to, label);
    if (is_own)
        where.own = one.addr;
    else
        where.peers.push_back(one);
}

template <class Take>
void each_of(const json& whole, const char* key, Take take) {
    const auto list = whole.is_object() ? whole.find(key) : whole.end();
    if (whole.is_object() && list != whole.end() && list->is_array())
        for (const json& each : *list) take(each);
}

} // namespace

known_machines parse_peers(std::string_view text) {
    const json whole = json::parse(text, nullptr, false);
    const auto list = whole.is_object() ? whole.find("machines") : whole.end();
    if (!whole.is_object() || list == whole.end() || !list->is_array())
        fail("the peers file: an object with a list \"machines\" is expected");
    known_machines made;
    std::vector<std::pair<std::string, std::string>> seen; // name and mesh
    for (const json& each : *list) {
        const machine one{.name = short_name(text_of(each, "name")), .addr = text_of(each, "addr")};
        const std::string label = text_of(each, "mesh");
        if (one.name.empty() || one.name.find_first_of("/ \r\n") != std::string::npos ||
            !is_address(one.addr))
            fail(R"(the peers file: each machine has a "name" and an "addr", a numeric address; see {})",
                 each.dump());
        const std::pair named(one.name, label);
        if (std::ranges::find(seen, named) != seen.end())
            fail("the peers file: {} stands there twice{}", one.name,
                 label.empty() ? "" : " with the mesh " + label);
        seen.push_back(named);
        // Whoever has the first one's name is this machine too, on another mesh.
        add(made, one, label, made.machines.empty() || one.name == made.machines.front().name);
    }
    if (made.machines.empty()) fail("the peers file names no machine; this one comes first");
    return made;
}

known_machines parse_status(std::string_view text) {
    const json whole = json::parse(text, nullptr, false);
    known_machines made;
    const auto take = [&](const std::string& name, const json& from, const std::string& label, bool is_own) {
        const machine one{.name = short_name(name), .addr = text_of(from, "overlay")};
        if (!one.name.empty() && is_address(one.addr)) add(made, one, label, is_own);
    };
    const std::string own = text_of(whole, "name");
    each_of(whole, "meshes", [&](const json& each) { take(own, each, text_of(each, "label"), true); });
    if (made.machines.empty()) fail("the shrooms daemon names no mesh of this machine");
    each_of(whole, "peers",
            [&](const json& each) { take(text_of(each, "name"), each, text_of(each, "mesh"), false); });
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

std::shared_ptr<const known_machines> machine_list::fresh() const {
    return std::chrono::steady_clock::now() < known_until_ ? known_ : nullptr;
}

task<std::shared_ptr<const known_machines>> machine_list::read() {
    if (auto known = fresh()) co_return known;
    std::error_code none;
    known_machines found;
    if (!from_.daemon.empty() && std::filesystem::exists(from_.daemon, none))
        found = parse_status(co_await ask_daemon());
    else if (!from_.peers.empty() && std::filesystem::exists(from_.peers, none))
        found = parse_peers(read_file(from_.peers));
    else // alone: its own agent is still asked
        found = {.machines = {{short_name(from_.name), "::1"}}, .meshes = {}};
    known_ = std::make_shared<const known_machines>(std::move(found));
    known_until_ = std::chrono::steady_clock::now() + fresh_for;
    co_return known_;
}

} // namespace pinfold
