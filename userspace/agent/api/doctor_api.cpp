#include "agent/api/services.hpp"

#include "spec/rules.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sstream>
#include <unistd.h>

namespace pinfold {

using nlohmann::json;

namespace {

constexpr std::chrono::seconds probe_time{30};
constexpr std::size_t largest_report = 64 * 1024;

struct report {
    std::string text;
    event ended;
};

task<> read_report(cages* owned, std::shared_ptr<program> from, std::shared_ptr<report> into) {
    std::array<char, 4096> buffer{};
    for (;;) {
        const ssize_t got = ::read(from->streams.output.get(), buffer.data(), buffer.size());
        const int error = errno;
        if (got > 0)
            into->text.append(buffer.data(),
                              std::min(static_cast<std::size_t>(got), largest_report - into->text.size()));
        if (got > 0 || (got < 0 && error == EINTR)) continue;
        if (got == 0 || error != EAGAIN) break;
        if (co_await poll_once(owned->ring(), from->streams.output.get(), POLLIN) < 0) break;
    }
    into->ended.set();
}

// A line is name TAB refused|allowed TAB detail. The probe was written by us, but it runs in a cage: nothing is believed
// beyond its shape.
json parse_probe(const std::string& text, cage_mode mode) {
    json list = json::array();
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        const std::size_t first = line.find('\t');
        const std::size_t second = first == std::string::npos ? first : line.find('\t', first + 1);
        const std::string result = first == std::string::npos ? ""
                                                              : line.substr(first + 1, second - first - 1);
        if (result != "refused" && result != "allowed") continue;
        list.push_back({{"mode", to_string(mode)},
                        {"name", line.substr(0, first)},
                        {"refused", result == "refused"},
                        {"detail", second == std::string::npos ? "" : line.substr(second + 1)}});
    }
    return list;
}

// The probe's rows that need to be known by name; every other act is refused in both modes, and not by a guard.
struct known_act {
    std::string_view name;
    std::uint32_t guard_act = PINFOLD_ACT_NONE; // what its denial says
    bool open_when_caged = false;
};
constexpr std::array known_acts{
    known_act{"TCP to the agents' port", PINFOLD_ACT_CONNECT},
    known_act{"TCP to a reserved address", PINFOLD_ACT_CONNECT, true},
    known_act{"a private address", PINFOLD_ACT_CONNECT, true},
    known_act{"a private address in IPv6 clothes", PINFOLD_ACT_CONNECT, true},
    known_act{"a shared address", PINFOLD_ACT_CONNECT, true},
    known_act{"the cloud's metadata address", PINFOLD_ACT_CONNECT, true},
    known_act{"a private IPv6 address", PINFOLD_ACT_CONNECT, true},
    known_act{"multicast", PINFOLD_ACT_SEND, true},
    known_act{"IPv6 multicast", PINFOLD_ACT_SEND, true},
    known_act{"broadcast", PINFOLD_ACT_SEND, true},
    known_act{"IP options", PINFOLD_ACT_OPTION},
    known_act{"IPv6 routing header", PINFOLD_ACT_OPTION},
    known_act{"user namespaces", PINFOLD_ACT_NONE, true},
    known_act{"user namespaces by clone3", PINFOLD_ACT_NONE, true},
};

known_act find_act(std::string_view name) {
    const auto* const found = std::ranges::find(known_acts, name, &known_act::name);
    return found == known_acts.end() ? known_act{.name = name} : *found;
}

std::uint64_t count_denials(const denial_log& from, std::uint64_t cage, std::uint32_t act) {
    return static_cast<std::uint64_t>(std::ranges::count_if(from.entries(), [&](const denial_entry& each) {
        return each.what.cage == cage && each.what.act == act;
    }));
}

// A refusal of which no denial came may be another's: the guard that should have refused is not known to be there.
void judge(const json& list, cage_mode mode, std::uint64_t cage, const denial_log& denials, json& problems) {
    std::array<std::uint64_t, PINFOLD_ACT_OPTION + 1> by_guards{};
    for (const json& each : list) {
        const std::string name = each.at("name");
        const known_act act = find_act(name);
        const bool refused = each.at("refused");
        if (refused)
            ++by_guards[act.guard_act];
        else if (mode == cage_mode::sealed || !act.open_when_caged)
            problems.push_back(
                fmt::format("a {} cage allows what it must refuse: {}", to_string(mode), name));
    }
    for (const std::uint32_t act : {PINFOLD_ACT_CONNECT, PINFOLD_ACT_SEND, PINFOLD_ACT_OPTION}) {
        const std::uint64_t seen = count_denials(denials, cage, act);
        if (seen < by_guards[act])
            problems.push_back(fmt::format(
                "in a {} cage {} acts of the kind '{}' were refused but only {} denials told of it",
                to_string(mode), by_guards[act], name_of_act(act), seen));
    }
}

task<> try_mode(cages& owned, cage_mode mode, json& into) {
    const std::shared_ptr<cage_record> record = co_await owned.probe(mode);
    const std::shared_ptr<program> probe = record->first;
    const auto found = std::make_shared<report>();
    owned.group().spawn(read_report, &owned, probe, found);
    const bool in_time = co_await wait_within(owned.ring(), probe->ended, probe_time);
    if (!in_time) co_await probe->kill();
    // Its end closes its streams, and the keeper tells its denials first.
    while (!co_await wait_within(owned.ring(), found->ended, std::chrono::seconds(2)))
        owned.ring().cancel(probe->streams.output.get());
    const std::uint64_t cage = record->id;
    owned.forget(*record);
    const json list = parse_probe(found->text, mode);
    into["probes"].insert(into["probes"].end(), list.begin(), list.end());
    into["denials"][to_string(mode)] = owned.denials().count(cage);
    if (list.empty())
        into["problems"].push_back(fmt::format("the probe in a {} cage reported nothing (it ended with {})",
                                               to_string(mode), probe->end.status));
    if (!in_time)
        into["problems"].push_back(fmt::format("the probe in a {} cage did not end", to_string(mode)));
    judge(list, mode, cage, owned.denials(), into["problems"]);
}

} // namespace

task<std::optional<http::response>> run_doctor(services& with, exchange&) {
    json result{{"facts", json::array()},
                {"probes", json::array()},
                {"problems", json::array()},
                {"denials", json::object()}};
    auto [facts, fds] = co_await with.owned.keeper().ask<wire::facts>(wire::facts_request{});
    for (const wire::fact& each : facts.list) {
        result["facts"].push_back({{"name", each.name}, {"value", each.value}, {"good", each.good}});
        if (!each.good) result["problems"].push_back(fmt::format("{}: {}", each.name, each.value));
    }
    for (const cage_mode mode : {cage_mode::sealed, cage_mode::caged}) {
        std::string trouble;
        try {
            co_await try_mode(with.owned, mode, result);
        } catch (const keeper_refused& error) {
            trouble = error.what();
        }
        if (!trouble.empty())
            result["problems"].push_back(
                fmt::format("a {} cage could not be made: {}", to_string(mode), trouble));
    }
    result["ok"] = result["problems"].empty();
    co_return answer_json(result);
}

} // namespace pinfold
