#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include "cagebreak/left_out.hpp"

#include "base/error.hpp"
#include "base/file.hpp"
#include "cage/bpf.hpp"
#include "cage/guard_programs.hpp"
#include "cage/syscall_list.hpp"
#include "cagebreak/cage_machine.hpp"
#include "spec/rules.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/seccomp.h>
#include <memory>
#include <optional>
#include <pinfold/denial.h>
#include <sched.h>
#include <seccomp.h>
#include <set>
#include <span>
#include <sstream>
#include <string_view>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace pinfold::test::left_out {
namespace {

template <typename... Cases>
struct overloaded : Cases... {
    using Cases::operator()...;
};

// Empty for what restricts nothing. There is no default on purpose: a new kind of step does not compile without a word
// here, and so is in the matrix.
std::string protection_of(const step& what) {
    return std::visit(overloaded{
                          [](const make_cgroup&) -> std::string { return "step make_cgroup"; },
                          [](const set_limit& s) { return "limit " + s.file; },
                          [](const attach_guard& s) { return std::string("guard ") + to_string(s.which); },
                          [](const write_policy&) -> std::string { return "step write_policy"; },
                          [](const make_network&) -> std::string { return "step make_network"; },
                          [](const start_child&) -> std::string { return "step start_child"; },
                          [](const map_ids&) -> std::string { return "step map_ids"; },
                          [](const mount_layer&) -> std::string { return "step mount_layer"; },
                          [](const bind_path&) -> std::string { return "step bind_path"; },
                          [](const join_keyring&) -> std::string { return "step join_keyring"; },
                          [](const set_hostname&) -> std::string { return "step set_hostname"; },
                          [](const place_root&) -> std::string { return "step place_root"; },
                          [](const mount_dev&) -> std::string { return "step mount_dev"; },
                          [](const mount_proc&) -> std::string { return "step mount_proc"; },
                          [](const mount_sys&) -> std::string { return "step mount_sys"; },
                          [](const mount_run&) -> std::string { return "step mount_run"; },
                          [](const place_binds&) -> std::string { return "step place_binds"; },
                          [](const pivot&) -> std::string { return "step pivot"; },
                          [](const drop_capabilities&) -> std::string { return "step drop_capabilities"; },
                          [](const no_new_privileges&) -> std::string { return "step no_new_privileges"; },
                          [](const filter_syscalls&) -> std::string { return "step filter_syscalls"; },
                          [](const await_relay&) -> std::string { return "step await_relay"; },
                          [](const run_program&) -> std::string { return {}; }, // what all the others are for
                      },
                      what);
}

constexpr const char* covers = "cover of /proc"; // the step stays, without its mask

using names = std::span<const std::string_view>;

struct list {
    const char* name;
    names calls;
};
// The lists of system calls that are refused; tools/lib/mutations.py compares these names with syscall_list.hpp.
constexpr std::array refused_lists{
    list{"not_permitted", syscall_list::not_permitted},
    list{"for_namespaces", syscall_list::for_namespaces},
    list{"clone_without_visible_flags", syscall_list::clone_without_visible_flags},
    list{"new_mount_calls", syscall_list::new_mount_calls},
};
constexpr const char* unlisted = "unlisted";       // what no list has
constexpr const char* foreign_abi = "foreign_abi"; // i386
constexpr const char* x32_numbers = "x32_numbers"; // the same architecture, with a bit in the number

// Most kernels are built or started without x32, and say ENOSYS whatever a filter says.
bool has_x32() {
#ifdef __x86_64__
    return ::syscall(0x40000000 | SYS_getpid) > 0;
#else
    return false;
#endif
}

std::vector<std::string_view> judged_names() {
    std::vector<std::string_view> all(syscall_list::judged.size() + syscall_list::sealed_judged.size());
    const auto end =
        std::ranges::transform(syscall_list::judged, all.begin(), &syscall_list::judged_call::name).out;
    std::ranges::transform(syscall_list::sealed_judged, end, &syscall_list::judged_call::name);
    return all;
}

// What the relay may answer; the rest are acts that no packet is.
bool is_relays(std::uint32_t rule) {
    return rule != PINFOLD_RULE_NONE && rule != PINFOLD_RULE_NO_POLICY && rule != PINFOLD_RULE_SOCKET_KIND &&
           rule != PINFOLD_RULE_SOURCE_ROUTE;
}

std::string chosen() {
    const char* name = std::getenv("PINFOLD_TEST_WITHOUT");
    return name == nullptr ? "" : name;
}

// What follows "KIND " in the protection of this run.
std::optional<std::string> chosen(std::string_view kind) {
    const std::string name = chosen();
    if (!name.starts_with(std::string(kind) + " ")) return std::nullopt;
    return name.substr(kind.size() + 1);
}

std::optional<std::uint32_t> number_of(std::string_view name) {
    const auto* newer = std::ranges::find(syscall_list::newer_calls, name, &syscall_list::newer_call::name);
    if (newer != std::ranges::end(syscall_list::newer_calls))
        return static_cast<std::uint32_t>(newer->number);
    const int number = seccomp_syscall_resolve_name(std::string(name).c_str());
    if (number < 0) return std::nullopt;
    return static_cast<std::uint32_t>(number);
}

std::set<std::uint32_t> numbers_of(names calls) {
    std::set<std::uint32_t> all;
    for (const std::string_view name : calls)
        if (const auto number = number_of(name)) all.insert(*number);
    return all;
}

std::set<std::uint32_t> numbers_in_no_list() {
    constexpr std::uint32_t beyond_all = 512;
    std::set<std::uint32_t> listed = numbers_of(syscall_list::allowed);
    for (const list& each : refused_lists) listed.merge(numbers_of(each.calls));
    for (const std::string_view name : judged_names())
        if (const auto number = number_of(name)) listed.insert(*number);
    std::set<std::uint32_t> rest;
    for (std::uint32_t number = 0; number < beyond_all; ++number)
        if (!listed.contains(number)) rest.insert(number);
    return rest;
}

sock_filter instruction(unsigned code, std::uint32_t operand, std::uint8_t yes = 0, std::uint8_t no = 0) {
    return {static_cast<std::uint16_t>(code), yes, no, operand};
}

// Allowed before the product's filter is asked. Jumps are relative, so it follows unchanged.
std::vector<sock_filter> allowing(const std::set<std::uint32_t>& numbers) {
    std::vector<sock_filter> code;
    for (const std::uint32_t number : numbers) {
        code.push_back(instruction(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1));
        code.push_back(instruction(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    }
    std::vector<sock_filter> all{
        instruction(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
        instruction(BPF_JMP | BPF_JEQ | BPF_K, seccomp_arch_native(), 1, 0),
        instruction(BPF_JMP | BPF_JA, static_cast<std::uint32_t>(code.size() + 1)),
        instruction(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
    };
    all.insert(all.end(), code.begin(), code.end());
    return all;
}

std::vector<sock_filter> allowing_foreign() {
    return {
        instruction(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
        instruction(BPF_JMP | BPF_JEQ | BPF_K, seccomp_arch_native(), 1, 0),
        instruction(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
}

std::vector<sock_filter> allowing_x32() {
    return {
        instruction(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        instruction(BPF_JMP | BPF_JSET | BPF_K, 0x40000000U, 0, 1),
        instruction(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
}

std::vector<sock_filter> allowing(const std::string& group) {
    if (group == unlisted) return allowing(numbers_in_no_list());
    if (group == foreign_abi) return allowing_foreign();
    if (group == x32_numbers) return allowing_x32();
    const auto* found = std::ranges::find(refused_lists, group, &list::name);
    if (found != refused_lists.end()) return allowing(numbers_of(found->calls));
    const std::string_view name = group;
    return allowing(numbers_of(names(&name, 1)));
}

struct attribute {
    const char* name; // as mountinfo says it
    std::uint64_t bit;
};
constexpr std::array attributes{attribute{"ro", MOUNT_ATTR_RDONLY}, attribute{"nosuid", MOUNT_ATTR_NOSUID},
                                attribute{"nodev", MOUNT_ATTR_NODEV}, attribute{"noexec", MOUNT_ATTR_NOEXEC}};
constexpr const char* project_name = "PROJECT";
constexpr const char* cover = "cover";

// Within the mount namespace of a cage, in a process of its own: 0, or an errno.
int change_mount(const std::string& path, const std::string& what) {
    if (what == cover) return ::umount2(path.c_str(), MNT_DETACH) == 0 ? 0 : errno;
    mount_attr change{};
    for (const attribute& each : attributes)
        if (what == each.name) change.attr_clr = each.bit;
    return ::mount_setattr(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, &change, sizeof change) == 0 ? 0
                                                                                                     : errno;
}

struct close_object {
    void operator()(bpf_object* object) const { bpf_object__close(object); }
};

// The programs of `file` take the places of their namesakes in the cage's links, with the same maps.
void replace_programs(const std::string& file, const std::filesystem::path& pins, std::uint64_t cage) {
    const std::unique_ptr<bpf_object, close_object> object(bpf_object__open_file(file.c_str(), nullptr));
    if (!object) fail_errno(errno, "open the eBPF object {}", file);
    bpf_map* map = nullptr;
    while ((map = bpf_object__next_map(object.get(), map)) != nullptr) {
        const unique_fd pinned(bpf_obj_get((pins / "maps" / bpf_map__name(map)).c_str()));
        if (pinned)
            check_negative(bpf_map__reuse_fd(map, pinned.get()), "share the map {}", bpf_map__name(map));
    }
    check_negative(bpf_object__load(object.get()), "load the eBPF object {}", file);
    for (const guard_hook& hook : guard_hooks) {
        const bpf_program* program = bpf_object__find_program_by_name(object.get(), hook.program);
        if (program == nullptr) continue;
        const unique_fd link(bpf_obj_get((bpf::cage_folder(pins, cage) / hook.name).c_str()));
        if (!link) continue; // this cage has no such guard: a mutation of the test's own
        check_negative(bpf_link_update(link.get(), bpf_program__fd(program), nullptr), "replace {}",
                       hook.program);
    }
}

} // namespace

std::vector<std::string> protections() {
    std::vector<std::string> all;
    const auto add = [&all](std::string name) {
        if (!name.empty() && std::ranges::find(all, name) == all.end()) all.push_back(std::move(name));
    };
    const machine_facts facts{.kernel = {},
                              .memory_controller = true,
                              .cpu_controller = true,
                              .pids_controller = true,
                              .unlimited = {}};
    cage_spec spec;
    spec.project = "/project";
    plan_inputs inputs;
    inputs.layers.push_back({"/image", "/"});
    for (const step& each : plan(spec, facts, inputs)) add(protection_of(each));
    add(std::string("step ") + covers);
    for (const guard_hook& hook : guard_hooks) add(std::string("hook ") + hook.name);
    for (const list& each : refused_lists) add(std::string("filter ") + each.name);
    for (const std::string_view name : judged_names()) add("filter " + std::string(name));
    for (const char* each : {unlisted, foreign_abi}) add(std::string("filter ") + each);
    if (has_x32()) add(std::string("filter ") + x32_numbers);
    for (std::uint32_t rule = 0; rule <= PINFOLD_RULE_LAST; ++rule)
        if (is_relays(rule)) add("relay " + std::string(text_of_rule(rule).name));
    add("relay check");
    if (::geteuid() == 0) {
        const auto cage = cage_machine::here().start(caged().with_project("/var/tmp", 0), {"sleep", "60"});
        for (const std::string& each : mounts_of(cage->built().init().pid(), "/var/tmp")) {
            // What covers a corner of /proc is a copy of one empty tree, or of /dev/null: only that it is there counts.
            const bool corner = each.starts_with("/proc/") && !each.starts_with("/proc/sys ");
            if (!corner || each.ends_with(cover)) add("mount " + each);
        }
    }
    return all;
}

void from_plan(std::vector<step>& steps) {
    const std::string name = chosen();
    if (name.empty()) return;
    if (chosen("step") == covers) {
        for (step& each : steps)
            if (auto* proc = std::get_if<mount_proc>(&each)) proc->masked = false;
    }
    std::erase_if(steps, [&name](const step& each) { return protection_of(each) == name; });
}

void from_filter(std::vector<sock_filter>& filter, cage_mode mode) {
    const auto group = chosen("filter");
    if (!group) return;
    // What a caged cage has anyway is not left out of its filter twice: that would open what its rules judge.
    if (mode == cage_mode::caged && (*group == "clone" || *group == "unshare")) return;
    const std::vector<sock_filter> first = allowing(*group);
    filter.insert(filter.begin(), first.begin(), first.end());
}

destination_check from_relay(destination_check check) {
    const auto name = chosen("relay");
    if (!name) return check;
    if (*name == "check")
        return [](cage_mode, int, const endpoint&) { return std::uint32_t{PINFOLD_RULE_NONE}; };
    const auto rule = rule_of_name(*name);
    if (!rule) fail("there is no rule '{}'", *name);
    return [check = std::move(check), rule = *rule](cage_mode mode, int protocol, const endpoint& to) {
        const std::uint32_t found = check(mode, protocol, to);
        return found == rule ? std::uint32_t{PINFOLD_RULE_NONE} : found;
    };
}

std::vector<std::string> mounts_of(pid_t process, const std::filesystem::path& project) {
    std::vector<std::string> all;
    std::istringstream mounts(read_file(fmt::format("/proc/{}/mountinfo", process)));
    for (std::string line; std::getline(mounts, line);) {
        std::istringstream fields(line);
        std::string path;
        std::string options;
        for (int skipped = 0; skipped < 5; ++skipped) fields >> path; // the fifth is where it is
        fields >> options;
        const std::string name = path == project.native() ? project_name : path;
        for (const attribute& each : attributes)
            if (("," + options + ",").find(fmt::format(",{},", each.name)) != std::string::npos)
                all.push_back(name + " " + each.name);
        if (path.starts_with("/proc/")) all.push_back(name + " " + cover);
    }
    return all;
}

void from_mounts(pid_t init, const std::filesystem::path& project) {
    const auto name = chosen("mount");
    if (!name) return;
    const std::size_t space = name->rfind(' ');
    std::string path = name->substr(0, space);
    if (path == project_name) {
        if (project.empty()) return;
        path = project;
    }
    const unique_fd there(check(::open(fmt::format("/proc/{}/ns/mnt", init).c_str(), O_RDONLY | O_CLOEXEC),
                                "open the mount namespace of a cage"));
    const pid_t changer = check(::fork(), "fork who changes a mount");
    if (changer == 0) {
        if (::setns(there.get(), CLONE_NEWNS) != 0) ::_exit(errno);
        ::_exit(change_mount(path, name->substr(space + 1)));
    }
    int status = 0;
    check(::waitpid(changer, &status, 0), "wait for who changes a mount");
    if (WEXITSTATUS(status) != 0) fail_errno(WEXITSTATUS(status), "leave out: mount {}", *name);
}

bool is(guard which) {
    return chosen("guard") == to_string(which);
}

void from_guards(const std::filesystem::path& pins, std::uint64_t cage) {
    if (const auto hook = chosen("hook")) bpf::unpin(bpf::cage_folder(pins, cage) / *hook);
    if (const auto files = chosen("object")) {
        std::istringstream each(*files);
        for (std::string file; std::getline(each, file, ':');) replace_programs(file, pins, cage);
    }
}

// tools/test --mutations reads what this prints.
TEST_CASE("every protection of a cage has a name of its own, by which it can be left out", "[.protections]") {
    const std::vector<std::string> all = protections();
    for (const std::string& each : all) std::printf("protection: %s\n", each.c_str());
    const std::set<std::string> names(all.begin(), all.end());
    CHECK(names.size() == all.size());
    for (const guard which : all_guards) CHECK(names.contains(std::string("guard ") + to_string(which)));
    if (!chosen().empty()) return;
    for (const std::string& each : all) {
        if (!each.starts_with("step ") && !each.starts_with("guard ")) continue;
        CAPTURE(each); // the plan does change when it is named
        cage_spec spec;
        spec.project = "/project";
        plan_inputs inputs;
        inputs.layers.push_back({"/image", "/"});
        std::vector<step> steps = plan(spec, {}, inputs);
        const std::vector<step> whole = steps;
        ::setenv("PINFOLD_TEST_WITHOUT", each.c_str(), 1);
        from_plan(steps);
        ::unsetenv("PINFOLD_TEST_WITHOUT");
        CHECK(steps != whole);
    }
}

namespace {

#if __has_include(<catch2/catch_all.hpp>)
using listener_base = Catch::EventListenerBase;
#else
using listener_base = Catch::TestEventListenerBase;
#endif

// One line for each case as it goes, so that a run which is cut short has told what it knew.
class case_reporter : public listener_base {
public:
    using listener_base::listener_base;
    void testCaseStarting(const Catch::TestCaseInfo& test) override {
        title_ = test.name;
        say("started", title_);
    }
    void testCaseEnded(const Catch::TestCaseStats& stats) override {
        say(stats.totals.assertions.failed > 0 ? "failed" : "passed", title_);
    }

private:
    static void say(const char* what, const std::string& test) {
        const char* path = std::getenv("PINFOLD_TEST_REPORT");
        if (path == nullptr) return;
        if (FILE* file = std::fopen(path, "ae"); file != nullptr) {
            (void)std::fprintf(file, "%s %s\n", what, test.c_str());
            (void)std::fclose(file);
        }
    }

    std::string title_;
};

CATCH_REGISTER_LISTENER(case_reporter)

} // namespace
} // namespace pinfold::test::left_out
