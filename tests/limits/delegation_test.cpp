// The controllers come down to the cages: from the root, through each cgroup, and out of one that a service was given.

#include "base/error.hpp"
#include "base/file.hpp"
#include "limits/limited.hpp"
#include "support/agent_fixture.hpp"
#include "support/catch.hpp"

#include <csignal>
#include <functional>
#include <sys/wait.h>
#include <unistd.h>

namespace pinfold::test {
namespace {

// A cgroup at the root, gone with all below it at the end.
class top_cgroup {
public:
    top_cgroup() : name_(fmt::format("pinfold-top-{}", ::getpid())) {
        const unique_fd root = open_directory(find_cgroup2(read_file("/proc/self/mountinfo")).value());
        group_ = cgroup::make(root.get(), name_);
    }
    top_cgroup(const top_cgroup&) = delete;
    top_cgroup& operator=(const top_cgroup&) = delete;
    ~top_cgroup() {
        (void)group_.kill(std::chrono::seconds(5));
        (void)group_.remove();
    }
    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    [[nodiscard]] const cgroup& group() const noexcept { return group_; }

private:
    std::string name_;
    cgroup group_;
};

// In a child, which may be moved about; its exit code.
int in_child(const std::function<int()>& act) {
    const pid_t pid = check(::fork(), "fork a child of a test");
    if (pid == 0) {
        int code = 99;
        try {
            code = act();
        } catch (const std::exception& error) {
            std::fprintf(stderr, "the child of a test: %s\n", error.what());
        }
        ::_exit(code);
    }
    int status = 0;
    check(::waitpid(pid, &status, 0), "wait for the child of a test");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool has_all(const cgroup_tree& tree) {
    return tree.has("memory") && tree.has("cpu") && tree.has("pids");
}

TEST_CASE("the controllers are turned on in each cgroup from the root down to the cages") {
    need_controllers();
    const top_cgroup top;
    const cgroup_tree tree(top.name() + "/a/b");
    CHECK(has_all(tree));
    const cgroup cage = cgroup::make(tree.fd(), "cage");
    for (const char* file : {"memory.max", "memory.swap.max", "cpu.max", "pids.max"})
        CHECK(::faccessat(cage.fd(), file, W_OK, 0) == 0);
}

TEST_CASE("a service alone in the cgroup that it was given steps aside, into a leaf") {
    need_controllers();
    const top_cgroup top;
    const cgroup service = cgroup::make(top.group().fd(), "service");
    CHECK(in_child([&] {
              service.write("cgroup.procs", fmt::format("{}", ::getpid()));
              const cgroup_tree tree(top.name() + "/service/cages");
              const std::string where = read_file("/proc/self/cgroup");
              const bool aside = where.find("/" + top.name() + "/service/keeper\n") != std::string::npos;
              return has_all(tree) && aside ? 0 : 1;
          }) == 0);
}

TEST_CASE("a cgroup in which others run too is left as it is, and then limits are not claimed") {
    need_controllers();
    const top_cgroup top;
    const cgroup service = cgroup::make(top.group().fd(), "service");
    const pid_t other = check(::fork(), "fork a process for a cgroup");
    if (other == 0) {
        for (;;) ::pause();
    }
    service.write("cgroup.procs", fmt::format("{}", other));
    CHECK(in_child([&] {
              service.write("cgroup.procs", fmt::format("{}", ::getpid()));
              const cgroup_tree tree(top.name() + "/service/cages");
              return tree.has("memory") || tree.has("cpu") || tree.has("pids") ? 1 : 0;
          }) == 0);
    CHECK(service.read("cgroup.subtree_control").find_first_not_of('\n') == std::string::npos);
    ::kill(other, SIGKILL);
    ::waitpid(other, nullptr, 0);
}

} // namespace
} // namespace pinfold::test
