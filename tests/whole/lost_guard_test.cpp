// A machine that has lost a guard: no cage is made on it, sealed or caged, and the missing piece is named.

#include "base/error.hpp"
#include "support/catch.hpp"
#include "whole/whole_machine.hpp"

#include <bpf/bpf.h>
#include <fmt/ranges.h>
#include <linux/bpf.h>
#include <map>
#include <sys/stat.h>

namespace pinfold::test {
namespace {

using Catch::Matchers::ContainsSubstring;

std::uint64_t cgroup_id(const std::filesystem::path& folder) {
    struct stat seen{};
    check(::stat(folder.c_str(), &seen), "look at {}", folder.native());
    return seen.st_ino;
}

// The links of the keeper's anchor, by kind of attachment. Found by its cgroup, so nobody else's are touched.
std::map<std::uint32_t, unique_fd> links_of(const std::filesystem::path& cgroup) {
    const std::uint64_t wanted = cgroup_id(cgroup);
    std::map<std::uint32_t, unique_fd> found;
    for (std::uint32_t id = 0; bpf_link_get_next_id(id, &id) == 0;) {
        unique_fd link(bpf_link_get_fd_by_id(id));
        bpf_link_info info = {};
        std::uint32_t size = sizeof info;
        if (!link || bpf_obj_get_info_by_fd(link.get(), &info, &size) != 0) continue; // it has just ended
        if (info.type == BPF_LINK_TYPE_CGROUP && info.cgroup.cgroup_id == wanted)
            found.emplace(info.cgroup.attach_type, std::move(link));
    }
    return found;
}

// What `attach` of the anchor is called by the keeper.
struct lost_hook {
    bpf_attach_type attach;
    const char* guard;
};

void starts_again(whole_machine& machine) {
    machine.kill_keeper();
    machine.start_keeper();
}

words trying(const char* mode) {
    return {"run", mode, "--name", "heron", "--", "sh", "-c", "echo started"};
}

TEST_CASE("a machine that has lost a guard makes no cage, and says which one is missing") {
    whole_machine machine;
    const auto [attach, guard] = GENERATE(lost_hook{BPF_CGROUP_INET4_CONNECT, "destinations"},
                                          lost_hook{BPF_CGROUP_UDP6_SENDMSG, "destinations"},
                                          lost_hook{BPF_CGROUP_INET_SOCK_CREATE, "sockets"},
                                          lost_hook{BPF_CGROUP_SETSOCKOPT, "options"});
    for (const char* mode : {"--sealed", "--caged"})
        CHECK(machine.run(trying(mode)).out == "started\n"); // the twin
    const auto before = machine.census();

    auto links = links_of(machine.cgroup_folder() / "anchor");
    REQUIRE(links.contains(attach));
    REQUIRE(bpf_link_detach(links.at(attach).get()) == 0);
    links.clear();
    for (const char* mode : {"--sealed", "--caged"}) {
        const cli_result refused = machine.run(trying(mode));
        CHECK(refused.status != 0);
        CHECK(refused.out.empty());
        CHECK_THAT(refused.err, ContainsSubstring(fmt::format("guard {}: not attached", guard)) &&
                                    ContainsSubstring("restart pinfold-keeper"));
    }
    CHECK(machine.differs_from(before).empty());
    const cli_result doctor = machine.run({"doctor"});
    CHECK(doctor.status != 0);
    CHECK_THAT(doctor.out + doctor.err, ContainsSubstring(fmt::format("guard {}", guard)));

    starts_again(machine);
    CHECK(machine.run(trying("--sealed")).out == "started\n"); // what the words advise helps
}

} // namespace
} // namespace pinfold::test
