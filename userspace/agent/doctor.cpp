#include "agent/doctor.hpp"

#include "agent/cages.hpp"
#include "agent/doctor_facts.hpp"
#include "spec/rules.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <poll.h>
#include <unistd.h>

namespace pinfold {
namespace {

constexpr std::chrono::seconds probe_time{30};
constexpr std::size_t largest_report = 64 * 1024;

struct output {
    std::string text;
    event ended;
};

task<> read_output(cages* owned, std::shared_ptr<program> from, std::shared_ptr<output> into) {
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

// False where it took too long, or where its keeper is gone and nobody will tell.
task<bool> wait_for_end(uring& ring, program& probe) {
    const auto limit = std::chrono::steady_clock::now() + probe_time;
    while (!probe.ended.is_set() && !probe.orphaned) {
        const auto left = limit - std::chrono::steady_clock::now();
        if (left <= std::chrono::nanoseconds(0)) break;
        std::ignore = co_await wait_within(ring, probe.news, left);
    }
    co_return probe.ended.is_set();
}

// The probe's rows that need to be known by name; every other act is refused in both modes, and by no guard that tells.
struct known_act {
    std::string_view name;
    std::uint32_t guard_act = PINFOLD_ACT_NONE; // what its denial says
    std::string_view guard = "";                // which is to refuse it
    bool open_when_caged = false;
};
constexpr std::array known_acts{
    known_act{"TCP to the agents' port", PINFOLD_ACT_CONNECT, "destinations"},
    known_act{"TCP to a reserved address", PINFOLD_ACT_CONNECT, "destinations"},
    known_act{"a private address", PINFOLD_ACT_CONNECT, "destinations", true},
    known_act{"a private address in IPv6 clothes", PINFOLD_ACT_CONNECT, "destinations", true},
    known_act{"a shared address", PINFOLD_ACT_CONNECT, "destinations", true},
    known_act{"the cloud's metadata address", PINFOLD_ACT_CONNECT, "destinations", true},
    known_act{"a private IPv6 address", PINFOLD_ACT_CONNECT, "destinations", true},
    known_act{"multicast", PINFOLD_ACT_SEND, "destinations"},
    known_act{"IPv6 multicast", PINFOLD_ACT_SEND, "destinations"},
    known_act{"broadcast", PINFOLD_ACT_SEND, "destinations"},
    known_act{"raw sockets", PINFOLD_ACT_NONE, "sockets"}, // seccomp may be first, and tells nothing
    known_act{"IP options", PINFOLD_ACT_OPTION, "options"},
    known_act{"IPv6 routing header", PINFOLD_ACT_OPTION, "options"},
    known_act{"user namespaces", PINFOLD_ACT_NONE, "", true},
    known_act{"user namespaces by clone3", PINFOLD_ACT_NONE, "", true},
};

known_act find_known(std::string_view name) {
    const auto* const found = std::ranges::find(known_acts, name, &known_act::name);
    return found == known_acts.end() ? known_act{.name = name} : *found;
}

std::uint64_t count_denials(const denial_log& from, std::uint64_t cage, std::uint32_t act) {
    return static_cast<std::uint64_t>(std::ranges::count_if(from.entries(), [&](const denial_entry& each) {
        return each.what.cage == cage && each.what.act == act && std::string_view(each.wall) == "guards";
    }));
}

void find_untried(const std::vector<doctor_probe>& list, cage_mode mode, std::vector<std::string>& problems) {
    for (const std::string_view guard : {"destinations", "sockets", "options"}) {
        const bool tried = std::ranges::any_of(
            list, [&](const doctor_probe& each) { return find_known(each.name).guard == guard; });
        if (!tried)
            problems.push_back(
                fmt::format("the guard \"{}\" could not be tried in a {} cage", guard, to_string(mode)));
    }
}

} // namespace

std::vector<doctor_probe> parse_probe(std::string_view text, cage_mode mode) {
    std::vector<doctor_probe> list;
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(text.size(), line.size() + 1));
        const std::size_t first = line.find('\t');
        if (first == std::string_view::npos) continue;
        const std::size_t second = std::min(line.find('\t', first + 1), line.size());
        const std::string_view result = line.substr(first + 1, second - first - 1);
        if (result != "refused" && result != "allowed") continue;
        list.push_back({.mode = mode,
                        .name = std::string(line.substr(0, first)),
                        .refused = result == "refused",
                        .detail = std::string(line.substr(std::min(second + 1, line.size())))});
    }
    return list;
}

std::vector<std::string> judge_probes(const std::vector<doctor_probe>& list, cage_mode mode,
                                      std::uint64_t cage, const denial_log& denials) {
    std::vector<std::string> problems;
    std::array<std::uint64_t, PINFOLD_ACT_OPTION + 1> by_guards{};
    for (const doctor_probe& each : list) {
        const known_act act = find_known(each.name);
        if (each.refused)
            ++by_guards[act.guard_act];
        else if (mode == cage_mode::sealed || !act.open_when_caged)
            problems.push_back(fmt::format("a {} cage allows what it must refuse: {}{}", to_string(mode),
                                           each.name,
                                           act.guard.empty() ? "" : fmt::format(" (guard {})", act.guard)));
    }
    find_untried(list, mode, problems);
    for (const std::uint32_t act : {PINFOLD_ACT_CONNECT, PINFOLD_ACT_SEND, PINFOLD_ACT_OPTION}) {
        const std::uint64_t seen = count_denials(denials, cage, act);
        if (seen < by_guards[act])
            problems.push_back(
                fmt::format("in a {} cage {} acts of the kind '{}' were refused but only {} denials of "
                            "the guard {} told of it",
                            to_string(mode), by_guards[act], name_of_act(act), seen,
                            act == PINFOLD_ACT_OPTION ? "options" : "destinations"));
    }
    return problems;
}

task<> look_at_machine(cages& owned, doctor_report& into) {
    auto [facts, fds] = co_await owned.keeper().ask<wire::facts>(wire::facts_request{});
    into.facts = std::move(facts.list);
    add_agent_facts(owned, into.facts);
    for (const wire::fact& each : into.facts) {
        if (!each.good) into.problems.push_back(fmt::format("{}: {}", each.name, each.value));
    }
}

task<> try_mode(cages& owned, cage_mode mode, doctor_report& into) {
    std::shared_ptr<cage_record> record;
    std::string trouble;
    try {
        record = co_await owned.probe(mode);
    } catch (const keeper_refused& error) {
        trouble = error.what();
    }
    if (!record) {
        into.problems.push_back(fmt::format("a {} cage could not be made: {}", to_string(mode), trouble));
        co_return;
    }
    const std::shared_ptr<program> probe = record->first;
    const auto found = std::make_shared<output>();
    owned.group().spawn(read_output, &owned, probe, found);
    const bool in_time = co_await wait_for_end(owned.ring(), *probe);
    if (!in_time && !probe->orphaned) co_await probe->kill();
    // Its end closes its streams, and the keeper tells its denials first.
    while (!co_await wait_within(owned.ring(), found->ended, std::chrono::seconds(2)))
        owned.ring().cancel(probe->streams.output.get());
    const std::uint64_t cage = record->id;
    owned.forget(*record);
    if (probe->orphaned) throw keeper_unreachable("the keeper went away while the machine was looked at");
    const auto list = parse_probe(found->text, mode);
    into.probes.insert(into.probes.end(), list.begin(), list.end());
    (mode == cage_mode::sealed ? into.sealed_denials : into.caged_denials) = owned.denials().count(cage);
    if (!in_time)
        into.problems.push_back(fmt::format("the probe in a {} cage did not end", to_string(mode)));
    else if (list.empty() || probe->end.status != 0)
        into.problems.push_back(fmt::format("the probe in a {} cage ended with {} after {} acts",
                                            to_string(mode), probe->end.status, list.size()));
    auto wrong = judge_probes(list, mode, cage, owned.denials());
    std::ranges::move(wrong, std::back_inserter(into.problems));
}

} // namespace pinfold
