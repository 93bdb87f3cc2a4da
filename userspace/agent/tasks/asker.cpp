#include "agent/tasks/asker.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <optional>

namespace pinfold {

namespace {

using address_bytes = std::array<unsigned char, 16>;

std::optional<address_bytes> parse(const std::string& text) {
    address_bytes bytes{};
    if (::inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1) return bytes;
    if (::inet_pton(AF_INET6, ("::ffff:" + text).c_str(), bytes.data()) == 1) return bytes;
    return std::nullopt;
}

bool is_loopback(const address_bytes& bytes) {
    address_bytes six{};
    six[15] = 1;
    constexpr std::array<unsigned char, 13> mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127};
    return bytes == six || std::equal(mapped.begin(), mapped.end(), bytes.begin());
}

} // namespace

std::string asker::name() const {
    return session.empty() ? std::string() : machine + "/" + session;
}

std::string asker::device() const {
    return local ? "this machine" : machine;
}

std::string asker::shown() const {
    if (local && !caged) return {};
    const std::string who = session.empty() ? "?" : name();
    if (caged) return fmt::format("{} ({}, in a cage)", device(), who);
    return session.empty() ? device() : fmt::format("{} ({})", device(), who);
}

asker who_asks(const arrival& what, std::span<const machine> machines) {
    asker who{.caged = !what.caged.empty()};
    const auto from = parse(what.address);
    if (what.address.empty() || (from && is_loopback(*from))) {
        who.local = true;
    } else {
        who.machine = who.address = what.address;
        for (std::size_t i = 0; from && i < machines.size(); ++i) {
            if (parse(machines[i].addr) != from) continue;
            who.machine = machines[i].name;
            who.local = i == 0;
            if (who.local) who.address.clear();
            break;
        }
    }
    if (who.local) who.machine = machines.empty() ? "localhost" : machines.front().name;
    // A cage is who its agent says it is; from elsewhere the machine is known, and the session is a claim about it.
    const std::string claim = who.caged ? what.caged : what.claim.substr(what.claim.rfind('/') + 1);
    if (is_session_name(claim)) who.session = claim;
    return who;
}

bool viewer::sees(const session_settings& set) const {
    return is_here || set.meshes.empty() || std::ranges::any_of(meshes, [&](const std::string& each) {
               return std::ranges::find(set.meshes, each) != set.meshes.end();
           });
}

viewer who_looks(const std::string& address, std::span<const mesh> meshes) {
    const auto from = parse(address);
    if (address.empty() || (from && is_loopback(*from))) return {};
    viewer made{.is_here = false, .meshes = {}};
    const auto is_from = [&](const std::string& text) { return from && parse(text) == from; };
    for (const mesh& each : meshes) {
        if (is_from(each.own)) return {};
        if (std::ranges::any_of(each.peers, is_from, &machine::addr)) made.meshes.push_back(each.label);
    }
    return made;
}

bool is_listed(const std::vector<std::string>& list, const asker& who) {
    const std::string name = who.name();
    return !name.empty() && std::ranges::any_of(list, [&](const std::string& each) {
        return each == name || each == who.machine + "/*";
    });
}

bool takes_caged(const session_settings& set, bool session_is_caged) noexcept {
    return set.accept_caged.value_or(session_is_caged);
}

bool takes_from(const session_settings& set, bool session_is_caged, const asker& who) {
    return !who.caged || takes_caged(set, session_is_caged) || is_listed(set.accept_caged_from, who);
}

} // namespace pinfold
