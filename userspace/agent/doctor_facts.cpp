#include "agent/doctor_facts.hpp"

#include "agent/cages.hpp"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sys/resource.h>
#include <unistd.h>

namespace pinfold {
namespace {

constexpr std::time_t before_us =
    1735689600; // 2025: a machine whose clock says less has never been told the time

wire::fact versions(const std::vector<wire::fact>& known) {
    const auto keeper = std::ranges::find(known, "keeper", &wire::fact::name);
    if (keeper == known.end() || keeper->value == PINFOLD_VERSION)
        return {"agent", PINFOLD_VERSION ", of the same release as the keeper", true};
    return {"agent",
            fmt::format("{}, but the keeper is {}: install both from one release, and restart both",
                        PINFOLD_VERSION, keeper->value),
            false};
}

wire::fact resolvers(const cages& owned) {
    const resolver_settings found = read_resolv_conf(owned.resolv_conf());
    std::string list;
    for (const std::string& each : found.servers) list += (list.empty() ? "" : ", ") + each;
    return {"names in a caged cage", fmt::format("asked of {} ({})", list, owned.resolv_conf().native()),
            true};
}

// A proxy at this machine's loopback is not the cage's: said here, since all a program sees is "connection refused".
wire::fact proxies() {
    std::string unreachable;
    for (const char* name :
         {"http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"}) {
        const char* value = std::getenv(name);
        if (value == nullptr) continue;
        const std::string_view text(value);
        for (const char* own : {"//localhost", "//127.", "//[::1]"})
            if (text.find(own) != std::string_view::npos) unreachable = name;
    }
    if (unreachable.empty()) return {"proxies", "none at the machine's loopback", true};
    return {
        "proxies",
        fmt::format(
            "{} names the machine's loopback, which no cage reaches: let the proxy listen at an address of "
            "the machine, or unset it",
            unreachable),
        true};
}

wire::fact ping() {
    std::ifstream from("/proc/sys/net/ipv4/ping_group_range");
    gid_t first = 1, last = 0;
    from >> first >> last;
    const gid_t own = ::getegid();
    if (own >= first && own <= last) return {"ping from cages", "works", true};
    return {"ping from cages",
            fmt::format("does not work: net.ipv4.ping_group_range is {} to {} and does not hold group {}",
                        first, last, own),
            true};
}

wire::fact clock_fact() {
    const std::time_t now = std::time(nullptr);
    if (now >= before_us) return {"clock", "set", true};
    return {"clock", "was never set: TLS refuses every certificate, and denials carry wrong dates", true};
}

wire::fact descriptors() {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    constexpr rlim_t few = 4096;
    return {"descriptors of the agent",
            fmt::format("{}{}", limit.rlim_max,
                        limit.rlim_max < few ? ", which is few for many connections: raise LimitNOFILE" : ""),
            true};
}

} // namespace

void add_agent_facts(const cages& owned, std::vector<wire::fact>& into) {
    into.push_back(versions(into));
    into.push_back(resolvers(owned));
    into.push_back(proxies());
    into.push_back(ping());
    into.push_back(clock_fact());
    into.push_back(descriptors());
}

} // namespace pinfold
