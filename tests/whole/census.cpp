// What there is of cages on the machine of the tests, as lines that can be compared.

#include "base/file.hpp"
#include "support/catch.hpp"
#include "whole/whole_machine.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <thread>

namespace pinfold::test {

namespace fs = std::filesystem;

namespace {

using lines = std::vector<std::string>;

// Everything below a folder that is no file of a file system's own (a cgroup's, say).
void add_tree(lines& into, const char* kind, const fs::path& folder, bool folders_only, int depth) {
    std::error_code ignored;
    for (auto each = fs::recursive_directory_iterator(folder, ignored);
         each != fs::recursive_directory_iterator(); each.increment(ignored)) {
        if (each.depth() >= depth) each.disable_recursion_pending();
        if (folders_only && !each->is_directory(ignored)) continue;
        into.push_back(fmt::format("{} {}", kind, each->path().lexically_relative(folder).native()));
    }
}

std::string kind_of(const std::string& target) {
    const std::size_t colon = target.find(":[");
    if (colon != std::string::npos && !target.starts_with("anon_inode")) return target.substr(0, colon);
    return target;
}

// Connections of CLIs: an agent lets one go a moment after its CLI has ended, and that is no leak.
std::set<std::string> connections_to(const fs::path& socket) {
    std::set<std::string> found;
    std::ifstream from("/proc/net/unix");
    for (std::string line; std::getline(from, line);) {
        std::istringstream fields(line);
        std::string number, references, protocol, flags, type, state, inode, path;
        fields >> number >> references >> protocol >> flags >> type >> state >> inode >> path;
        if (path == socket.native() && flags == "00000000")
            found.insert("socket:[" + inode + "]"); // does not listen
    }
    return found;
}

// The descriptors of a process by what they are; numbers of inodes mean nothing from one cage to the next.
void add_descriptors(lines& into, const char* whose, pid_t pid, const std::set<std::string>& passing) {
    std::map<std::string, int> counts;
    std::error_code gone;
    for (const auto& each : fs::directory_iterator(fmt::format("/proc/{}/fd", pid), gone)) {
        const fs::path target = fs::read_symlink(each.path(), gone);
        if (!gone && !passing.contains(target)) ++counts[kind_of(target)];
    }
    // Those by which projects are mapped are kept for the next cage of the same ids, up to a number.
    constexpr int kept_user_namespaces = 64;
    for (const auto& [kind, count] : counts)
        if (kind != "user" || count > kept_user_namespaces)
            into.push_back(fmt::format("{} holds {} {}", whose, count, kind));
}

void add_mounts(lines& into, const char* whose, const std::string& pid, const std::string& name) {
    std::ifstream from("/proc/" + pid + "/mountinfo");
    for (std::string line; std::getline(from, line);) {
        std::istringstream fields(line);
        std::string field, where;
        for (int i = 0; i < 5 && fields >> field; ++i) where = field;
        if (where.find(name) != std::string::npos) into.push_back(fmt::format("{} mount {}", whose, where));
    }
}

} // namespace

// What a keeper does in the background (a spare network, the first verdict on the machine) has come to its end.
std::vector<std::string> whole_machine::census() {
    lines last = look();
    for (int same = 0, tries = 0; same < 8 && tries < 200; ++tries) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        lines now = look();
        same = now == last ? same + 1 : 0;
        last = std::move(now);
    }
    return last;
}

std::vector<std::string> whole_machine::look() {
    lines found;
    const pid_t agent_pid = agent(); // first: to ask it makes no cage, but a connection for a moment
    add_tree(found, "cgroup", cgroup_folder(), true, 2);
    add_tree(found, "pin", pins_ / "cages", false, 2);
    add_tree(found, "record", run_dir() / "cages", false, 2);
    add_tree(found, "kept", state_dir() / "cages", false, 2);
    add_tree(found, "image", state_dir() / "images", false, 0);
    add_tree(found, "project", project(), false, 8);
    add_mounts(found, "keeper's", std::to_string(keeper_.pid()), name_);
    add_mounts(found, "machine's", "1", name_);
    if (keeper_) add_descriptors(found, "keeper", keeper_.pid(), {});
    if (agent_pid != 0)
        add_descriptors(found, "agent", agent_pid, connections_to(home_ / "run/pinfold/api.sock"));
    std::ranges::sort(found);
    return found;
}

std::string whole_machine::differs_from(const std::vector<std::string>& before, std::chrono::seconds limit) {
    lines after;
    eventually([&] { return (after = look()) == before; }, limit);
    lines gone, come;
    std::ranges::set_difference(before, after, std::back_inserter(gone));
    std::ranges::set_difference(after, before, std::back_inserter(come));
    std::string text;
    for (const std::string& each : gone) text += "- " + each + "\n";
    for (const std::string& each : come) text += "+ " + each + "\n";
    return text;
}

std::vector<std::string> whole_machine::cages() {
    lines names;
    std::error_code ignored;
    for (const auto& each : fs::directory_iterator(cgroup_folder(), ignored)) {
        if (each.is_directory() && each.path().filename() != "anchor")
            names.push_back(each.path().filename());
    }
    return names;
}

std::uint32_t whole_machine::next_range() {
    const cli_result told = run({"run", "--sealed", "--", "cat", "/proc/self/uid_map"});
    CHECK(told.status == 0);
    std::istringstream from(told.out);
    std::uint32_t inside = 1, outside = 0;
    from >> inside >> outside;
    CHECK(inside == 0);
    return outside;
}

std::vector<std::string> whole_machine::unguarded() {
    lines missing;
    for (const std::string& name : cages()) {
        std::error_code ignored;
        const auto alive = [&] {
            try {
                return !read_file(cgroup_folder() / name / "cgroup.procs").empty();
            } catch (const std::exception&) {
                return false; // it ended just now
            }
        };
        for (const char* hook :
             {"connect4", "connect6", "sendmsg4", "sendmsg6", "sock_create", "setsockopt"}) {
            // Guards go last, and come first: one that is missing before and after a process was seen is unguarded.
            const auto pinned = [&] { return fs::exists(pins_ / "cages" / name / hook, ignored); };
            if (!pinned() && alive() && !pinned()) missing.push_back(fmt::format("{} of {}", hook, name));
        }
    }
    return missing;
}

} // namespace pinfold::test
