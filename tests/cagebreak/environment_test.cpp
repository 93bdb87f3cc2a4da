// boundary.md, "Environment": what a program of a cage is given, and nothing of ours beside it.
#include "cagebreak/owner_place.hpp"
#include "support/catch.hpp"

#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>

namespace pinfold::test {
namespace {

// A word in this process's environment that must appear nowhere inside.
class canary_variable {
public:
    canary_variable() { (void)::setenv(name, "pinfold-canary-word", 1); }
    canary_variable(const canary_variable&) = delete;
    canary_variable& operator=(const canary_variable&) = delete;
    ~canary_variable() { (void)::unsetenv(name); }
    static constexpr const char* name = "PINFOLD_CANARY_TOKEN";
};

// Everything that /proc says of everybody, and the memory of whoever may be read.
const std::string look_everywhere = R"(
import os, glob, re
found = []
for path in glob.glob('/proc/[0-9]*/*') + glob.glob('/proc/[0-9]*/task/*/*') + ['/proc/version', '/proc/mounts', '/proc/self/mountinfo', '/etc/hosts', '/etc/hostname']:
    if '/%d/' % os.getpid() in path and path.endswith(('cmdline', 'mem')): continue
    try:
        if path.endswith('/mem'):
            text = b''
            for line in open(path[:-3] + 'maps'):
                a, b = (int(x, 16) for x in re.match('([0-9a-f]+)-([0-9a-f]+)', line).groups())
                with open(path, 'rb') as f:
                    f.seek(a)
                    text += f.read(min(b - a, 1 << 20))
        else:
            with open(path, 'rb') as f: text = f.read(1 << 20)
    except (OSError, ValueError, OverflowError): continue
    if b'canary-' + b'word' in text: found.append(path)
print(found)
)";

TEST_CASE("a program has the environment it was given and no other variable (B43)") {
    cage_machine& machine = cage_machine::here();
    const canary_variable canary;
    for (const cage_kind& kind : {sealed(), caged()}) {
        CHECK(machine.run(kind, {"/usr/bin/env"}).output ==
              "PATH=/usr/sbin:/usr/bin:/sbin:/bin\nHOME=/root\n");
        const auto cage = machine.start(kind, {"sleep", "1000"});
        CHECK(cage->enter({"/usr/bin/env"}).output == "PATH=/usr/sbin:/usr/bin:/sbin:/bin\nHOME=/root\n");
        // As the machine sees them: init has none at all.
        std::vector<std::string> environments;
        for (const pid_t pid : processes_of(*cage))
            environments.push_back(text_of(fmt::format("/proc/{}/environ", pid)));
        REQUIRE(environments.size() == 2);
        CHECK(environments[0].empty());
        CHECK(environments[1] == std::string("PATH=/usr/sbin:/usr/bin:/sbin:/bin\0HOME=/root\0", 46));
    }
}

TEST_CASE("no word of the keeper's environment is anywhere in a cage (B43)") {
    cage_machine& machine = cage_machine::here();
    const canary_variable canary;
    for (const cage_kind& kind : {sealed(), caged()}) {
        const auto cage = machine.start(kind, {"sleep", "1000"});
        const probed nothing_found = cage->enter(python(look_everywhere));
        CAPTURE(nothing_found.errors);
        CHECK(nothing_found.output == "[]\n");
        // The twin: the same look finds what a program of the cage was given.
        const probed twin = cage->enter({"/usr/bin/env", "TOKEN=canary-word", "/bin/sh", "-c",
                                         "sleep 30 >/dev/null 2>&1 & exec python3 -c \"$0\"",
                                         look_everywhere});
        CAPTURE(twin.errors);
        CHECK(twin.says("/environ"));
        const probed all = machine.probe(kind, {"environ"});
        CHECK(all.says("1/environ=EACCES"));
        CHECK(all.says("1/cmdline=[pinfold-init"));
        CHECK_FALSE(all.says("canary"));
    }
}

// Until its exec a program that enters is a copy of the keeper: not dumpable, so nothing of it can be read.
const std::string watch = R"(
import os
open('ready', 'w')
while True:
    for pid in os.listdir('/proc'):
        if not pid.isdigit() or int(pid) == os.getpid(): continue
        for name in ('environ', 'cmdline', 'maps', 'auxv'):
            try:
                with open('/proc/%s/%s' % (pid, name), 'rb') as f: text = f.read()
            except OSError: continue
            if b'canary-word' in text or b'cagebreak_tests' in text and name == 'maps': open('found', 'ab').write(text + b'\n')
)";

TEST_CASE("nothing of the keeper can be read while programs enter (B43)") {
    cage_machine& machine = cage_machine::here();
    const canary_variable canary;
    const owner_place project;
    const auto cage = machine.start(sealed().with_project(project.path(), project.owner()), python(watch));
    for (int i = 0; i < 100 && !std::filesystem::exists(project.path() / "ready"); ++i) ::usleep(50'000);
    for (int i = 0; i < 50; ++i) CHECK(cage->enter({"true"}).status == 0);
    CHECK_FALSE(std::filesystem::exists(project.path() / "found"));
    CHECK(cage->enter({"/usr/bin/env", "TOKEN=canary-word", "sleep", "1"}).status == 0); // the twin
    CHECK(text_of(project.path() / "found").find("canary-word") != std::string::npos);
}

TEST_CASE("process 1 is not dumpable and has no environment to be read (B43)") {
    cage_machine& machine = cage_machine::here();
    const std::string look =
        "cat /proc/1/environ; cat /proc/1/maps; cat /proc/1/mem; ls /proc/1/fd; readlink /proc/1/exe || echo "
        "refused >&2; ls /proc/1/map_files; cat /proc/1/auxv";
    const probed tried = machine.run(caged(), shell(look));
    CHECK(tried.output.find_first_not_of('\n') == std::string::npos);
    CHECK(lines_of(tried.errors).size() >= 6);
    const auto cage = machine.start(caged(), {"sleep", "1000"});
    const pid_t init = processes_of(*cage).front();
    CHECK(status_of(fmt::format("/proc/{}/environ", init)).st_uid ==
          0); // root's of the machine: the mark of not dumpable
    CHECK(status_of(fmt::format("/proc/{}/environ", processes_of(*cage).back())).st_uid ==
          cage->built().id_base()); // the twin
}

TEST_CASE("a program has its three streams and no other descriptor, whatever the keeper holds open") {
    cage_machine& machine = cage_machine::here();
    const owner_place project;
    const std::string program = project.probe();
    // Open without close-on-exec, low and high, as a careless library would leave them.
    const unique_fd memory(::memfd_create("pinfold-canary", 0));
    const unique_fd folder(::open("/", O_RDONLY | O_DIRECTORY));
    const unique_fd high(::fcntl(memory.get(), F_DUPFD, 700));
    REQUIRE((memory && folder && high));
    const std::string golden_part[] = {"0=pipe:", " 1=pipe:", " 2=pipe:"};
    for (const cage_kind& mode : {sealed(), caged()}) {
        const cage_kind kind = mode.with_project(project.path(), project.owner());
        const auto cage = machine.start(kind, {"sleep", "1000"});
        for (const probed& seen :
             {machine.probe(kind, {"dump-fds"}), machine.run(kind, {program, "dump-fds"}),
              cage->enter({program, "dump-fds"})}) {
            CAPTURE(seen.output);
            for (const std::string& part : golden_part) CHECK(seen.says(part));
            CHECK(std::ranges::count(seen.output, '=') == 3);
        }
        for (const pid_t pid : processes_of(*cage)) {
            std::size_t open = 0;
            for (const auto& fd : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid))) {
                CHECK(std::filesystem::read_symlink(fd.path()).native().find("canary") == std::string::npos);
                ++open;
            }
            CHECK(open == 3);
        }
    }
}

} // namespace
} // namespace pinfold::test
