// A program that enters a running cage is held as the first one is, and gives nothing of the machine away.
#include "cagebreak/owner_place.hpp"
#include "support/catch.hpp"

#include <csignal>
#include <thread>

namespace pinfold::test {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

// Opens whatever runs, and tries to write to it for as long as it can: once it has ended, no ETXTBSY protects it.
const std::string overwriter = R"(
import os
held, wrote = {}, open('wrote', 'a')
open('ready', 'w')
while True:
    for pid in os.listdir('/proc'):
        if not pid.isdigit(): continue
        try:
            fd = os.open('/proc/%s/exe' % pid, os.O_RDONLY)
            what = os.readlink('/proc/self/fd/%d' % fd)
            if what in held: os.close(fd)
            else: held[what] = fd
        except OSError: pass
    for what, fd in held.items():
        if what.startswith('/usr/'): continue
        try:
            to = os.open('/proc/self/fd/%d' % fd, os.O_WRONLY)
            os.write(to, b'overwritten')
            os.close(to)
            print(what, file=wrote, flush=True)
        except OSError: pass
)";

TEST_CASE("no program of the machine is overwritten while programs enter (B31)") {
    cage_machine& machine = cage_machine::here();
    const owner_place project;
    const std::string own = project.probe();
    // Asks the kernel to run, as its interpreter, whatever program is about to become it: that is ours, and it does run
    // inside. It belongs to no id that the cage has, so nobody there can open it for writing.
    const std::string script = project.file("script", "#!/proc/self/exe\n", 0755);
    const std::string ours = text_of("/proc/self/exe");
    const std::string init = text_of(PINFOLD_LIBEXEC_DIR "/pinfold-init");
    const auto cage = machine.start(sealed().with_project(project.path(), project.owner()),
                                    python(overwriter));
    for (int i = 0; i < 100 && !std::filesystem::exists(project.path() / "ready"); ++i)
        std::this_thread::sleep_for(50ms);
    for (int i = 0; i < 50; ++i) {
        CHECK(cage->enter({"true"}).status == 0); // the twin: entering works meanwhile
        if (i % 5 == 0) {
            try {
                (void)cage->enter({script}, 1s);
            } catch (const cage_failure& refused) {
                UNSCOPED_INFO(refused.what());
            }
        }
    }
    // The twin of the attack: a program of the cage's own is overwritten in that way.
    CHECK(cage->enter({own, "sleep", "300"}).status == 0);
    for (int i = 0; i < 100 && text_of(project.path() / "wrote").empty(); ++i)
        std::this_thread::sleep_for(50ms);
    CHECK(text_of(own).starts_with("overwritten"));
    for (const std::string& line : lines_of(text_of(project.path() / "wrote"))) CHECK(line == own);
    CHECK(text_of("/proc/self/exe") == ours);
    CHECK(text_of(PINFOLD_LIBEXEC_DIR "/pinfold-init") == init);
    CHECK(machine.run(sealed(), {"true"}).status == 0);
}

TEST_CASE("what opens every program that runs finds none that it may write") {
    cage_machine& machine = cage_machine::here();
    for (const cage_kind& kind : {sealed(), caged()}) {
        const probed tried = machine.probe(kind, {"open-proc-exe"});
        CHECK(tried.status == 1);
        CHECK(tried.says("1=EACCES"));
    }
}

// The working directory is a path that the caller names; one that leads through a descriptor which the child still holds
// would lie outside (CVE-2024-21626).
TEST_CASE("no descriptor of the keeper is a working directory: /proc/self/fd leads nowhere outside") {
    cage_machine& machine = cage_machine::here();
    const unique_fd outside = open_directory("/tmp"); // what a careless keeper would have open
    const auto cage = machine.start(sealed(), {"sleep", "1000"});
    const auto where = [&cage](const std::string& directory) -> std::string {
        try {
            caged_program program = cage->built().enter(
                {.argv = {"/bin/sh", "-c", "stat -Lc %d:%i . / && cd -P .. && pwd"},
                 .environment = {"PATH=/usr/bin:/bin"},
                 .directory = directory});
            program.streams.input.reset();
            std::string output;
            std::array<char, 4096> part{};
            for (ssize_t got = 0; (got = ::read(program.streams.output.get(), part.data(), part.size())) > 0;)
                output.append(part.data(), static_cast<std::size_t>(got));
            (void)program.held.reap_within(10s);
            return output;
        } catch (const cage_failure& error) {
            return std::string("refused: ") + error.what();
        }
    };
    for (int fd = 0; fd < 64; ++fd) {
        for (const char* form : {"/proc/self/fd/{}", "/proc/self/fd/{}/..", "/proc/self/fd/{}/../../.."}) {
            const std::string directory = fmt::format(fmt::runtime(form), fd);
            CAPTURE(directory);
            CHECK_THAT(where(directory), Catch::Matchers::StartsWith("refused: "));
        }
    }
    CHECK_THAT(where("/proc/self/cwd"), Catch::Matchers::EndsWith("/\n")); // the twin: a lawful one works
    CHECK_THAT(where("/usr/bin"), Catch::Matchers::EndsWith("/usr\n"));
}

TEST_CASE("a program that entered is in the cage's cgroup and namespaces and as bound as the first") {
    cage_machine& machine = cage_machine::here();
    for (const cage_kind& kind : {sealed(), caged()}) {
        const auto cage = machine.start(kind, {"sleep", "1000"});
        const pid_t init = processes_of(*cage).front();
        caged_program entered = cage->built().enter(
            {.argv = {"sleep", "1000"}, .environment = {"PATH=/usr/bin", "ONLY=this"}, .directory = "/tmp"});
        const pid_t pid = entered.held.pid();
        const std::vector<pid_t> members = processes_of(*cage);
        CHECK(std::ranges::find(members, pid) != members.end());
        CHECK(members.size() == 3);
        for (const char* space : {"user", "mnt", "pid", "ipc", "uts", "cgroup", "net"}) {
            CAPTURE(space);
            CHECK(std::filesystem::read_symlink(fmt::format("/proc/{}/ns/{}", pid, space)) ==
                  std::filesystem::read_symlink(fmt::format("/proc/{}/ns/{}", init, space)));
        }
        for (const char* line : {"Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb",
                                 "NoNewPrivs", "Seccomp", "Seccomp_filters", "SigIgn", "SigBlk"}) {
            CAPTURE(line);
            CHECK(status_line(pid, line) == status_line(cage->built().program().pid(), line));
        }
        CHECK(status_line(pid, "Seccomp") == "2");
        CHECK(status_line(pid, "NoNewPrivs") == "1");
        CHECK(text_of(fmt::format("/proc/{}/environ", pid)) == std::string("PATH=/usr/bin\0ONLY=this\0", 24));
        CHECK(std::filesystem::read_symlink(fmt::format("/proc/{}/cwd", pid)) == "/tmp");
        CHECK(status_line(pid, "NSpid").find('\t') != std::string::npos);
        // The mutation.
        const auto open = machine.start(
            kind.without<filter_syscalls>().without<no_new_privileges>().without<drop_capabilities>(),
            {"sleep", "1000"});
        const probed loose = open->enter(shell("grep -E '^(Seccomp|NoNewPrivs):' /proc/self/status"));
        CHECK(loose.output == "NoNewPrivs:\t0\nSeccomp:\t0\n");
    }
}

TEST_CASE("a program that entered is refused the LAN, and the denial is recorded") {
    cage_machine& machine = cage_machine::here();
    const owner_place project;
    const std::vector<std::string> act{project.probe(), "connect-tcp", "192.168.1.10", "9000", "ping!"};
    const cage_kind kind = sealed().with_project(project.path(), project.owner()).with_open_relay();
    machine.net().reset();
    const auto cage = machine.start(kind, {"sleep", "1000"});
    const probed refused = cage->enter(act);
    CHECK(refused.says("EACCES"));
    CHECK(refused.denials.size() >= 1);
    CHECK(machine.net().count("lan", "tcp", "192.168.1.10", 9000) == nothing);
    CHECK(cage->enter({act[0], "connect-tcp", "93.184.216.34", "9000", "ping!"}).status == 0); // the twin

    const auto open = machine.start(kind.without(guard::destinations), {"sleep", "1000"});
    (void)open->enter(act);
    CHECK(machine.net().count("lan", "tcp", "192.168.1.10", 9000).packets > 0);
}

// The exit code that `pinfold exec` would give, and what it would say.
std::pair<int, std::string> failure(const std::function<void()>& act) {
    try {
        act();
    } catch (const cage_failure& error) {
        return {error.exit_code(), error.what()};
    }
    return {0, ""};
}

TEST_CASE("a program that cannot be run says so: 127 where it is not there, 126 where it is no program") {
    cage_machine& machine = cage_machine::here();
    const auto cage = machine.start(sealed(), {"sleep", "1000"});
    REQUIRE(cage->enter(shell("echo x >/tmp/plain; printf '\\177ELFbroken' >/tmp/broken; chmod 755 "
                              "/tmp/broken; echo '#!/no/such' >/tmp/script; chmod 755 /tmp/script"))
                .status == 0);
    const std::pair<std::vector<std::string>, int> commands[] = {
        {{"no-such-program"}, 127}, {{"/no/such/program"}, 127}, {{"/tmp/plain"}, 126},     {{"/tmp"}, 126},
        {{"/tmp/broken"}, 126},     {{"/tmp/script"}, 127},      {{"/etc/hostname/x"}, 127}};
    for (const auto& [argv, code] : commands) {
        CAPTURE(argv.front());
        const auto [given, said] = failure([&] { (void)cage->enter(argv); });
        CHECK(given == code);
        CHECK_THAT(said, ContainsSubstring(argv.front()));
        CHECK_THAT(said, ContainsSubstring("test-7e57"));
    }
    CHECK(failure([&] { (void)machine.run(sealed(), {"no-such-program"}); }).first == 127);
    CHECK(failure([&] { (void)machine.run(sealed(), {"/etc/hostname"}); }).first == 126);
    const auto [code, said] = failure([&] {
        (void)cage->built().enter(
            {.argv = {"true"}, .environment = {"PATH=/usr/bin"}, .directory = "/no/such"});
    });
    CHECK(code == 125);
    CHECK_THAT(said, ContainsSubstring("/no/such"));
    CHECK(cage->enter({"true"}).status == 0); // none of it hurt the cage
}

TEST_CASE("a cage that has ended cannot be entered, and says so") {
    cage_machine& machine = cage_machine::here();
    const auto cage = machine.start(sealed(), {"true"});
    REQUIRE(cage->finish().status == 0);
    const auto [code, said] = failure([&] { (void)cage->enter({"true"}); });
    CHECK(code == 125);
    CHECK_THAT(said, ContainsSubstring("test-7e57"));
    INFO(said);
    CHECK(said.find("namespaces") + said.find("ending") + said.find("ended") != 3 * std::string::npos);
}

} // namespace
} // namespace pinfold::test
