// What this machine has of what a cage promises, asked of the kernel each time: for `pinfold doctor`, and for each new cage,
// which is refused where one of these is not good.

#include "base/error.hpp"
#include "cage/mounts.hpp"
#include "keeper/keeper.hpp"
#include "keeper/machine.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace pinfold {
namespace {

std::string joined(const std::vector<std::string>& list) {
    std::string text;
    for (const std::string& each : list) text += (text.empty() ? "" : ", ") + each;
    return text;
}

const char* purpose_of(guard which) {
    switch (which) {
    case guard::destinations: return "refuses destinations";
    case guard::sockets: return "refuses kinds of socket";
    case guard::options: return "refuses source routes";
    }
    return "";
}

wire::fact fact_of(guard which, const std::vector<std::string>& missing) {
    const std::string name = to_string(which);
    std::vector<std::string> of_this;
    for (const std::string& each : missing)
        if (each.starts_with(name)) of_this.push_back(each);
    if (of_this.empty()) return {"guard " + name, fmt::format("in place ({})", purpose_of(which)), true};
    return {
        "guard " + name,
        fmt::format(
            "not attached: {}; restart pinfold-keeper, and look who detaches BPF programs on this machine",
            joined(of_this)),
        false};
}

wire::fact seccomp_fact() {
    std::ifstream file("/proc/sys/kernel/seccomp/actions_avail");
    std::string text;
    std::getline(file, text);
    const bool good = text.find("errno") != std::string::npos &&
                      text.find("kill_process") != std::string::npos;
    return {"seccomp", good ? "filters system calls" : "missing: this kernel cannot filter system calls",
            good};
}

// Nothing needs it: what is dumped is without it only harder to read.
wire::fact types_fact() {
    const bool there = std::filesystem::exists("/sys/kernel/btf/vmlinux");
    return {"kernel types (BTF)", there ? "known" : "not known: bpftool shows less, the guards need none",
            true};
}

wire::fact tun_fact() {
    const bool there = std::filesystem::exists("/dev/net/tun");
    return {"tun",
            there ? "there"
                  : "missing: /dev/net/tun is not there, so no cage gets a network ('modprobe tun')",
            there};
}

wire::fact namespaces_fact() {
    std::ifstream file("/proc/sys/user/max_user_namespaces");
    long most = 0;
    file >> most;
    return {
        "user namespaces",
        most > 0
            ? "allowed"
            : "none allowed: user.max_user_namespaces is 0, so root in a cage could not be nobody outside",
        most > 0};
}

} // namespace

// Of the places where projects usually are. Not a matter of enforcement: a sealed cage on another one is refused by itself.
wire::fact keeper::idmap_fact(const client& from) {
    const std::string home = home_directory(from.who().uid);
    if (home.empty() || !std::filesystem::is_directory(home))
        return {"files of the owner", "the owner has no home directory to try", true};
    const std::uint32_t base = ids_.take();
    std::string trouble;
    try {
        const unique_fd folder = open_as(from.who(), home);
        (void)make_bind(folder.get(), ids_.project_namespace(base, from.who().uid, from.who().gid), false,
                        home);
    } catch (const std::exception& error) {
        trouble = error.what();
    }
    ids_.give_back(base);
    if (trouble.empty())
        return {"files of the owner", fmt::format("{} can be shown in a cage with shifted ids", home), true};
    return {"files of the owner", fmt::format("a sealed cage is refused in {}: {}", home, trouble), true};
}

wire::fact keeper::cages_fact() const {
    std::vector<std::string> bad, ending;
    for (const auto& [id, held] : cages_) {
        const auto missing = guards_.missing(held.built->group().fd());
        if (!missing.empty()) bad.push_back(fmt::format("{} lacks {}", held.state.name, joined(missing)));
        if (held.state.state == "ending") ending.push_back(held.state.name);
    }
    if (!bad.empty())
        return {"cages", fmt::format("not guarded: {}; end them with 'pinfold rm'", joined(bad)), false};
    std::vector<std::string> left;
    for (const std::uint64_t id : guards_.pinned())
        if (!cages_.contains(id)) left.push_back(cage_name(id));
    std::string text = fmt::format("{} running, all guarded; {} ranges of ids in use", cages_.size(),
                                   ids_.in_use());
    if (!ending.empty()) text += "; do not end, and stay guarded: " + joined(ending);
    if (!left.empty()) text += "; left by an earlier keeper, and guarded: " + joined(left);
    return {"cages", text, true};
}

std::vector<wire::fact> keeper::needed_facts() const {
    std::vector<wire::fact> list = list_facts(cgroups_, facts_, options_.bpf_dir);
    const auto missing = guards_.missing(anchor_.fd());
    for (const guard which : all_guards) list.push_back(fact_of(which, missing));
    list.push_back(seccomp_fact());
    list.push_back(namespaces_fact());
    list.push_back(tun_fact());
    return list;
}

// Whoever took a guard off the anchor can take it off a cage: what this machine does not have now, no cage is built upon.
void keeper::need_machine(const cage_spec& spec) const {
    for (const wire::fact& each : needed_facts())
        if (!each.good)
            fail("cage {} refused: {}: {} ('pinfold doctor' shows all)", spec.name, each.name, each.value);
}

wire::facts keeper::facts(const client& from) {
    wire::facts told{needed_facts()};
    told.list.push_back({"keeper", PINFOLD_VERSION, true});
    told.list.push_back({"steering (sk_lookup)", "loaded: TCP of cages reaches the relay", true});
    told.list.push_back(types_fact());
    told.list.push_back(idmap_fact(from));
    told.list.push_back(cages_fact());
    return told;
}

} // namespace pinfold
