// boundary.md, "Files": /proc, /sys, /dev, links and dots. A cage sees no process and no kernel corner of the machine, and
// no path of any form leads out of its root.
#include "cagebreak/owner_place.hpp"
#include "support/catch.hpp"

#include <array>
#include <fcntl.h>

namespace pinfold::test {
namespace {

constexpr const char* masked_proc[] = {"interrupts", "kallsyms",  "modules", "timer_list", "zoneinfo",
                                       "slabinfo",   "key-users", "iomem",   "softirqs"};

TEST_CASE("the kernel's corners of /proc are covered, and its settings cannot be written") {
    cage_machine& machine = cage_machine::here();
    std::string look = "cd /proc; cat";
    for (const char* name : masked_proc) look += std::string(" ") + name;
    look += " 2>/dev/null | wc -c; ls -A bus fs irq driver 2>/dev/null | grep -v :$ | grep -c .; test -e "
            "cpuinfo && echo twin";
    // Not every kernel has it. Covered it is the null device, to which anybody may write.
    const std::string trigger = "f=/proc/sysrq-trigger; test -e $f && stat -c %F $f || echo none";
    const bool has_trigger = std::filesystem::exists("/proc/sysrq-trigger");
    for (const cage_kind& kind : {sealed(), caged()}) {
        CHECK(machine.run(kind, shell(look)).output == "0\n0\ntwin\n");
        CHECK(machine.run(kind, shell(trigger)).output ==
              (has_trigger ? "character special file\n" : "none\n"));
        CHECK(machine.probe(kind, {"sysctl-write"}).status == 1);
        CHECK(machine.probe(kind, {"write", "/proc/sys/kernel/msgmax"}).says("EROFS"));

        const cage_kind open = kind.changed([](std::vector<step>& steps) {
            std::ranges::replace_if(
                steps, [](const step& s) { return std::holds_alternative<mount_proc>(s); },
                step(mount_proc{.masked = false}));
        });
        const std::vector<std::string> seen = lines_of(machine.run(open, shell(look)).output);
        REQUIRE(seen.size() == 3);
        CHECK(machine.run(open, shell(trigger)).output == (has_trigger ? "regular empty file\n" : "none\n"));
        CHECK(std::stoi(seen[0]) > 1000);
        CHECK(std::stoi(seen[1]) > 0);
        CHECK_FALSE(machine.probe(open, {"write", "/proc/sys/kernel/msgmax", "8192"})
                        .says("EROFS")); // of its own IPC namespace
    }
}

TEST_CASE("no process of the machine and none of another cage is visible or can be signalled") {
    cage_machine& machine = cage_machine::here();
    const auto other = machine.start(sealed(), {"sleep", "1000"});
    // Process 1 becomes pinfold-init beside the first instructions of the program, not before them.
    const probed seen = machine.run(
        sealed(), shell("cd /proc; until grep -q pinfold-init 1/comm; do :; done; cat [0-9]*/comm"));
    CHECK(seen.output == "pinfold-init\nsh\n");

    std::string signal = "import os\nseen=[]\nfor p in [";
    for (const pid_t pid : {::getpid(), ::getppid(), processes_of(*other).front()}) {
        if (pid == 1) continue; // whoever started the tests is gone; a cage has a process 1 of its own
        REQUIRE(pid > 10);      // what a cage of two processes cannot have
        signal += std::to_string(pid) + ",";
    }
    signal += "]:\n  try: os.kill(p,0); seen.append(p)\n  except ProcessLookupError: "
              "pass\nos.kill(os.getpid(),0)\nprint(seen)";
    CHECK(machine.run(sealed(), python(signal)).output == "[]\n");
    CHECK(machine.run(caged(), python(signal)).output == "[]\n");
    // No mutation: the pid namespace is of the clone itself, and no plan is without it.
}

TEST_CASE("init is beyond the reach of what runs in its cage") {
    cage_machine& machine = cage_machine::here();
    for (const cage_kind& kind : {sealed(), caged()}) {
        const probed tried = machine.run(
            kind, shell("cat /proc/1/environ /proc/1/maps; readlink /proc/1/exe /proc/1/cwd /proc/1/root; ls "
                        "/proc/1/fd; "
                        "kill -9 1; kill -TERM 1; kill -STOP 1; sleep 0.2; cat /proc/1/comm; "
                        "tr -dc . </proc/self/environ >/dev/null && echo twin"));
        CHECK(tried.output == "pinfold-init\ntwin\n");
        CHECK(machine.probe(kind, {"ptrace-init"}).says("EPERM"));
    }
}

TEST_CASE("/dev holds these devices and no other") {
    cage_machine& machine = cage_machine::here();
    const std::string expected =
        "fd\nfull\nmqueue\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero\n";
    const std::string all = "ls -A /dev; find / -xdev \\( -type b -o -type c \\) 2>/dev/null | grep -v "
                            "^/dev/; ls -A /dev/pts /dev/shm /dev/mqueue | grep -v :$";
    for (const cage_kind& kind : {sealed(), caged()}) {
        CHECK(machine.run(kind, shell(all)).output == expected + "\nptmx\n\n");
        CHECK(machine
                  .run(kind, shell("echo x >/dev/null && head -c 4 /dev/zero | wc -c && echo x "
                                   ">/dev/shm/file && echo twin"))
                  .says("4\ntwin"));
        const probed refused = machine.run(
            kind,
            shell("touch /dev/more; rm /dev/null; chmod 600 /dev/null; mv /dev/zero /dev/one; echo end"));
        CHECK(lines_of(refused.errors).size() == 4);
    }
    // The mutation: without that step /dev is the image's, and empty.
    CHECK(machine
              .run(sealed().without<mount_dev>().changed([](std::vector<step>& steps) {
                  std::ranges::replace_if(
                      steps, [](const step& s) { return std::holds_alternative<mount_proc>(s); },
                      step(mount_proc{.masked = false}));
              }),
                   shell("ls -A /dev"))
              .output.empty());
}

TEST_CASE("a cage's terminals are its own: neither the machine's nor another cage's can be named") {
    cage_machine& machine = cage_machine::here();
    const unique_fd ours(
        check(::open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), "open a terminal for a test"));
    const auto other = machine.start(
        sealed(),
        python("import os, time\nmaster, slave = os.openpty()\nprint(os.ttyname(slave), flush=True)\n"
               "time.sleep(600)"));
    std::array<char, 64> name{};
    REQUIRE(::read(other->built().streams().output.get(), name.data(), name.size() - 1) > 0);
    CHECK(std::string(name.data()) == "/dev/pts/0\n");
    CHECK(other->enter(shell("ls /dev/pts")).output == "0\nptmx\n"); // the twin
    for (const cage_kind& kind : {sealed(), caged()}) {
        CHECK(machine.run(kind, shell("ls /dev/pts; : </dev/pts/0")).output == "ptmx\n");
        CHECK(machine.run(kind, python("import os\nprint(os.ttyname(os.openpty()[1]))")).output ==
              "/dev/pts/0\n");
    }
    // No mutation: every cage gets a devpts that was made for it, and there is no step to leave out.
}

TEST_CASE("/sys holds what programs size themselves by, read-only, and no device of the machine") {
    cage_machine& machine = cage_machine::here();
    const std::string expected =
        "/sys\n/sys/block\n/sys/class\n/sys/devices\n/sys/devices/system\n/sys/devices/system/cpu\n"
        "/sys/devices/system/cpu/online\n/sys/devices/system/cpu/possible\n/sys/devices/system/cpu/present\n"
        "/sys/fs\n/sys/fs/cgroup\n/sys/kernel\n/sys/kernel/mm\n/sys/kernel/mm/transparent_hugepage\n"
        "/sys/kernel/mm/transparent_hugepage/enabled\n/sys/kernel/mm/transparent_hugepage/hpage_pmd_size\n";
    CHECK(machine
              .run(sealed(), shell("find /sys | sort; touch /sys/x /sys/kernel/x 2>/dev/null; test -s "
                                   "/sys/devices/system/cpu/online || echo empty"))
              .output == expected);
    CHECK(machine.probe(sealed(), {"cgroup-write"}).says("ENOENT"));
    CHECK(machine.run(sealed().without<mount_sys>(), shell("find /sys")).output == "/sys\n"); // the mutation
}

TEST_CASE("dots and descriptors lead no further than the root of the cage") {
    cage_machine& machine = cage_machine::here();
    const owner_place project;
    const cage_kind kind = sealed().with_project(project.path(), project.owner());
    CHECK(
        machine
            .run(kind,
                 shell("for p in /.. /../../.. /proc/self/cwd/../../../../.. /proc/1/root "
                       "/proc/self/root/..; do "
                       "test \"$(stat -Lc %d:%i $p 2>/dev/null)\" = \"$(stat -c %d:%i /)\" || echo $p; done"))
            .output == "/proc/1/root\n"); // init's links cannot be followed at all
    const probed fds = machine.probe(kind, {"dump-fds"});
    CHECK(fds.says("0=pipe:"));
    CHECK_FALSE(fds.says("=/tmp"));
    // The old way out of chroot, which root inside may call.
    const probed escaped = machine.run(
        kind,
        python(
            "import os\nos.mkdir('/d')\nos.chroot('/d')\nfor i in range(64): os.chdir('..')\nos.chroot('.')\n"
            "print(os.path.exists('" +
            std::string(PINFOLD_LIBEXEC_DIR) + "'), os.path.exists('/usr/bin/id'))"));
    CHECK(escaped.output == "False True\n");
}

TEST_CASE("links and hard links in the project lead to nothing of the machine (B37)") {
    cage_machine& machine = cage_machine::here();
    const owner_place project;
    const owner_place outside;
    const std::string secret = outside.file("secret", "canary", 0644);
    for (const auto& [name, to] : {std::pair<const char*, std::string>{"absolute", secret},
                                   {"relative", "../" + outside.path().filename().native() + "/secret"},
                                   {"folder", outside.path()},
                                   {"proc", "/proc/1/root" + secret},
                                   {"root", "/proc/self/root" + secret}})
        std::filesystem::create_symlink(to, project.path() / name);
    const cage_kind kind = sealed().with_project(project.path(), project.owner());
    const std::string look =
        "cat absolute relative folder/secret proc root; echo x >absolute; echo x >folder/new; ln " + secret +
        " hard; "
        "ln /etc/hostname hard; ls -A";
    const probed seen = machine.run(kind, shell(look));
    CHECK(seen.output == "absolute\nfolder\nproc\nrelative\nroot\n");
    CHECK(text_of(secret) == "canary");
    // The mutation: the folder is let in. It is another mount there, so a hard link is still refused.
    const probed mutated = machine.run(kind.with_bind({outside.path(), outside.path(), false}), shell(look));
    CHECK(mutated.says("canarycanary"));
    CHECK_FALSE(mutated.says("hard"));
}

TEST_CASE("two cages share no file, no memory and no message queue") {
    cage_machine& machine = cage_machine::here();
    const auto one = machine.start(sealed(), {"sleep", "1000"});
    const std::string mark = "for p in /tmp /run /dev/shm /var/tmp /root /etc /usr/bin; do echo canary "
                             ">$p/marker-of-one; done; ipcmk -M 4096 >/dev/null";
    REQUIRE(one->enter(shell(mark)).status == 0);
    const std::string look =
        "ls /tmp /run /dev/shm /var/tmp /root /etc /usr/bin | grep -c marker; ipcs -m | grep -c 4096";
    CHECK(one->enter(shell(look)).output == "7\n1\n");
    CHECK(machine.run(sealed(), shell(look)).output == "0\n0\n");
    CHECK_FALSE(std::filesystem::exists("/usr/bin/marker-of-one"));
}

} // namespace
} // namespace pinfold::test
