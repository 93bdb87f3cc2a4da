// boundary.md, "Identity and system calls": each refused call by its name, with what it answers.
#include "cagebreak/owner_place.hpp"
#include "support/catch.hpp"

#include <cerrno>
#include <iterator>
#include <sys/syscall.h>

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

// The kernel itself refuses much of this to root of a user namespace. Handed arguments that make no sense, it would complain
// of them first: so the answer tells who gave it.
TEST_CASE(
    "each group of refused system calls is refused by the filter, before the kernel looks at an argument") {
    struct call {
        long number;
        const char* arguments; // of Python; b is a pointer to nowhere
        int sealed;
        int caged; // 0 = the kernel's own answer, which differs from version to version
    };
    const call calls[] = {
        {SYS_mount, "b, b, b, 0, b", EPERM, 0},
        {SYS_umount2, "b, 0x10000", EPERM, 0},
        {SYS_setns, "-1, 0", EPERM, 0},
        {SYS_mount_setattr, "-1, b, 0x40000000, b, 0", EPERM, ENOSYS},
        {SYS_fsconfig, "-1, 99, b, b, 0", EPERM, ENOSYS},
        {SYS_clone3, "b, 0", ENOSYS, 0},
        {SYS_clone, "0x10000000 | 0x10000, b, 0, 0, 0", EPERM, 0}, // NEWUSER, THREAD without SIGHAND
        {SYS_unshare, "0x10000000 | 0x1", EPERM, 0},               // NEWUSER, and no flag there is
        {SYS_io_uring_setup, "1, b", ENOSYS, ENOSYS},
        {SYS_keyctl, "-1, 0, 0, 0, 0", EPERM, EPERM},
        {SYS_socket, "40, 99, 0", EAFNOSUPPORT, EAFNOSUPPORT},
        {SYS_socketpair, "2, 1, 0, b", EAFNOSUPPORT, EAFNOSUPPORT},
        {SYS_ioctl, "-1, 0x5412, b", EPERM, EPERM}, // TIOCSTI
        {SYS_ioctl, "-1, 0x541c, b", EPERM, EPERM}, // TIOCLINUX
        {SYS_ioctl, "-1, 0x5423, b", EPERM, EPERM}, // TIOCSETD
        {SYS_mknodat, "-1, b, 0o020600, 0x103", EPERM, EPERM},
#ifdef SYS_mknod
        {SYS_mknod, "b, 0o060600, 0x800", EPERM, EPERM},
#endif
        {SYS_personality, "0x0040000", EPERM, EPERM}, // ADDR_NO_RANDOMIZE
    };
    std::string code = "import ctypes\nl = ctypes.CDLL(None, use_errno=True)\nb = 0xffff800000000000\n"
                       "def call(n, *a):\n"
                       "    r = l.syscall(ctypes.c_long(n), *[ctypes.c_long(x - (1 << 64) if x >> 63 == 1 "
                       "else x) for x in a])\n"
                       "    print(ctypes.get_errno() if r == -1 else 0)\n";
    for (const call& each : calls) code += fmt::format("call({}, {})\n", each.number, each.arguments);
    cage_machine& machine = cage_machine::here();
    const auto answers = [&](const cage_kind& kind) {
        const probed ran = machine.run(kind, python(code));
        CAPTURE(ran.errors);
        REQUIRE(lines_of(ran.output).size() == std::size(calls));
        return lines_of(ran.output);
    };
    const auto sealed_answers = answers(sealed());
    const auto caged_answers = answers(caged());
    const auto unfiltered = answers(sealed().without<filter_syscalls>()); // the mutation
    for (std::size_t i = 0; i < std::size(calls); ++i) {
        CAPTURE(calls[i].number, calls[i].arguments);
        CHECK(sealed_answers[i] == std::to_string(calls[i].sealed));
        CHECK(unfiltered[i] != sealed_answers[i]);
        CHECK(caged_answers[i] == (calls[i].caged == 0 ? unfiltered[i] : std::to_string(calls[i].caged)));
    }
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
