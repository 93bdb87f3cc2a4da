// boundary.md, "Identity and system calls": each refused call by its name, with what it answers.
#include "cagebreak/owner_place.hpp"
#include "support/catch.hpp"

namespace pinfold::test {
namespace {

// "ok" is any answer of a kernel that would have served the call (the probe hands it nothing to serve).
struct refusal {
    std::vector<std::string> act;
    const char* sealed;
    const char* caged;
    const char*
        unfiltered; // sealed without the filter: the mutation; null where the kernel has the last word
};

const std::vector<refusal>& refusals() {
    static const std::vector<refusal> table{
        {{"bpf"}, "EPERM", "EPERM", "ok"},
        {{"keyctl"}, "EPERM", "EPERM", "ok"},
        {{"add-key"}, "EPERM", "EPERM", "ok"},
        {{"perf"}, "EPERM", "EPERM", "ok"},
        {{"userfaultfd"}, "EPERM", "EPERM", "ok"},
        {{"io-uring"}, "ENOSYS", "ENOSYS", "ok"},
        {{"tiocsti"}, "EPERM", "EPERM", "ok"},
        {{"tiocsti-high"}, "EPERM", "EPERM", "ok"},
        {{"tioclinux"}, "EPERM", "EPERM", "ok"},
        {{"userns"}, "EPERM", "ok", "ok"},
        {{"clone-userns"}, "EPERM", "ok", "ok"},
        {{"clone3-userns"}, "ENOSYS", "ok", "ok"},
        // The kernel refuses these as well, since no capability of a cage reaches so far: with what, and whether before
        // it looks at the arguments, differs from version to version.
        {{"module"}, "EPERM", "EPERM", nullptr},
        {{"kexec"}, "EPERM", "EPERM", nullptr},
        {{"open-by-handle"}, "EPERM", "EPERM", nullptr},
        {{"mount"}, "EPERM", "EPERM", nullptr},
        {{"fsopen"}, "EPERM", "ENOSYS", nullptr},
        {{"umount", "/proc"}, "EPERM", "EPERM", nullptr},
        {{"pivot"}, "EPERM", "EPERM", nullptr},
        {{"unshare-net"}, "EPERM", "EPERM", nullptr},
        {{"mknod-char"}, "EPERM", "EPERM", nullptr},
        {{"mknod-block"}, "EPERM", "EPERM", nullptr},
        {{"settime"}, "EPERM", "EPERM", nullptr},
        {{"sethostname"}, "EPERM", "EPERM", nullptr},
        {{"ptrace-init"}, "EPERM", "EPERM", nullptr},
    };
    return table;
}

// The second word of "NAME ok …" or "NAME EACCES …".
std::string answer(const probed& ran) {
    std::istringstream words(ran.output);
    std::string name;
    std::string word;
    words >> name >> word;
    return word;
}

TEST_CASE("every refused system call answers as it should in both kinds of cage") {
    cage_machine& machine = cage_machine::here();
    unsigned changed = 0;
    for (const refusal& each : refusals()) {
        CAPTURE(each.act.front());
        CHECK(answer(machine.probe(sealed(), each.act)) == each.sealed);
        CHECK(answer(machine.probe(caged(), each.act)) == each.caged);
        const std::string mutated = answer(machine.probe(sealed().without<filter_syscalls>(), each.act));
        if (each.unfiltered != nullptr) CHECK(mutated == each.unfiltered);
        changed += mutated != each.sealed ? 1 : 0;
    }
    CHECK(changed >= 12);
}

TEST_CASE("a program that entered is filtered as the first one is") {
    cage_machine& machine = cage_machine::here();
    const owner_place project;
    const std::string program = project.probe();
    const cage_kind kind = sealed().with_project(project.path(), project.owner());
    const auto cage = machine.start(kind, {"sleep", "1000"});
    const auto open = machine.start(kind.without<filter_syscalls>(), {"sleep", "1000"});
    for (const refusal& each : refusals()) {
        CAPTURE(each.act.front());
        std::vector<std::string> argv = each.act;
        argv.insert(argv.begin(), program);
        CHECK(answer(cage->enter(argv)) == each.sealed);
        if (each.unfiltered != nullptr) CHECK(answer(open->enter(argv)) == each.unfiltered);
    }
}

#ifdef __x86_64__
TEST_CASE("system calls of i386 and x32 do not exist") {
    cage_machine& machine = cage_machine::here();
    unsigned changed = 0;
    for (const char* act : {"i386", "x32"}) {
        CAPTURE(act);
        CHECK(answer(machine.probe(sealed(), {act})) == "ENOSYS");
        CHECK(answer(machine.probe(caged(), {act})) == "ENOSYS");
        // Where the kernel has them at all.
        const bool machine_has = machine.bare({act}).status == 0;
        const bool mutated = machine.probe(sealed().without<filter_syscalls>(), {act}).status == 0;
        CHECK(mutated == machine_has);
        changed += mutated ? 1 : 0;
    }
    if (changed == 0) WARN("this kernel has neither of them, so the filter is not what refused");
}
#endif

TEST_CASE("nothing is typed into the terminal of whoever started a program of the cage") {
    cage_machine& machine = cage_machine::here();
    const owner_place project;
    const std::string program = project.probe();
    // A terminal of the cage's own, by script(1): on it TIOCSTI would be served.
    for (const cage_kind& mode : {sealed(), caged()}) {
        const cage_kind kind = mode.with_project(project.path(), project.owner());
        for (const char* act : {"tiocsti", "tiocsti-high", "tioclinux"}) {
            const probed tried = machine.run(kind, {"script", "-qec", program + " " + act, "/dev/null"});
            CAPTURE(act, tried.output, tried.errors);
            CHECK(tried.says("EPERM"));
        }
        CHECK(machine.run(kind, {"script", "-qec", "tty", "/dev/null"}).says("/dev/pts/"));
    }
}

} // namespace
} // namespace pinfold::test
