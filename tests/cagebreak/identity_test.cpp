// boundary.md, "Identity and system calls": who root inside is outside, and what it may do.
#include "cagebreak/owner_place.hpp"
#include "support/catch.hpp"

#include <linux/keyctl.h>
#include <sys/syscall.h>

namespace pinfold::test {
namespace {

// chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap, net_bind_service, sys_chroot, setfcap: no other.
constexpr const char* kept = "00000000800405fb";

std::string link_of(const std::string& path) {
    return std::filesystem::read_symlink(path).native();
}

TEST_CASE("root inside is an id outside that owns nothing, in namespaces of its own") {
    cage_machine& machine = cage_machine::here();
    for (const cage_kind& kind : {sealed(), caged()}) {
        const auto cage = machine.start(kind, {"sleep", "1000"});
        const std::string base = std::to_string(cage->built().id_base());
        CHECK(cage->built().id_base() >= first_pool_id);
        const std::vector<pid_t> inside = processes_of(*cage);
        REQUIRE(inside.size() == 2);
        for (const pid_t pid : inside) {
            CHECK(status_line(pid, "Uid") == base + "\t" + base + "\t" + base + "\t" + base);
            CHECK(status_line(pid, "Gid") == base + "\t" + base + "\t" + base + "\t" + base);
            CHECK(status_line(pid, "Groups").find_first_not_of(' ') == std::string::npos);
            for (const char* space : {"user", "mnt", "pid", "ipc", "uts", "cgroup", "net"}) {
                CAPTURE(space);
                CHECK(link_of(fmt::format("/proc/{}/ns/{}", pid, space)) !=
                      link_of(fmt::format("/proc/self/ns/{}", space)));
            }
            // No id of the machine is mapped but the range of the cage.
            const std::string map = text_of(fmt::format("/proc/{}/uid_map", pid));
            std::istringstream fields(map);
            std::uint64_t first = 1;
            std::uint64_t outside = 0;
            std::uint64_t count = 0;
            fields >> first >> outside >> count;
            CHECK((first == 0 && outside == cage->built().id_base() && count == ids_per_cage));
            CHECK(lines_of(map).size() == 1);
        }
        CHECK(cage->enter({"id", "-u"}).output == "0\n"); // the twin
    }
}

TEST_CASE("these capabilities are left, and none over the machine") {
    cage_machine& machine = cage_machine::here();
    const std::string golden = fmt::format(
        "capget ok effective={0} permitted={0} bounding={0} no_new_privs=1\n", kept);
    for (const cage_kind& kind : {sealed(), caged()}) {
        CHECK(machine.probe(kind, {"capget"}).output == golden);
        CHECK_FALSE(machine.probe(kind.without<drop_capabilities>(), {"capget"}).says(kept));
        // A filter without no_new_privs is for CAP_SYS_ADMIN alone, so that mutation leaves out both.
        CHECK(machine.probe(kind.without<no_new_privileges>().without<filter_syscalls>(), {"capget"})
                  .says("no_new_privs=0"));
        CHECK(machine.run(kind, shell("grep -c 'Cap[IA].*:[[:space:]]0*$' /proc/self/status")).output ==
              "2\n"); // inheritable, ambient
    }
    // CAP_SYS_ADMIN over its own user namespace would mount a file system.
    const cage_kind unfiltered = caged();
    CHECK(machine.probe(unfiltered, {"mount"}).says("EPERM"));
    CHECK(machine.probe(unfiltered.without<drop_capabilities>(), {"mount"}).status == 0);
}

TEST_CASE(
    "a sealed cage makes no user namespace, a caged one does and gains nothing over the network by it") {
    cage_machine& machine = cage_machine::here();
    for (const char* act : {"userns", "clone-userns", "clone3-userns"}) {
        CAPTURE(act);
        CHECK(machine.probe(sealed(), {act}).status == 1);
        CHECK(machine.probe(caged(), {act}).status == 0);
        CHECK(machine.probe(sealed().without<filter_syscalls>(), {act}).status == 0);
    }
    // What covers /proc is locked there: EINVAL, and nothing comes to light.
    const probed uncovered = machine.run(
        caged(),
        {"unshare", "--user", "--map-root-user", "--mount", "/usr/bin/python3", "-c",
         "import "
         "ctypes\nl=ctypes.CDLL(None,use_errno=True)\nl.umount2(b'/proc/bus',0)\nprint(ctypes.get_errno())"});
    CHECK(uncovered.output == "22\n");
    const std::string inner =
        "unshare --user --map-root-user --mount sh -c 'mount -t tmpfs none /mnt && echo mounted; ";
    const probed nested = machine.run(
        caged(),
        shell(inner + "mount -t sysfs none /mnt || echo no-sysfs; "
                      "mount -o remount,rw /proc/sys || echo read-only; ip link set lo down || echo no-lo; "
                      "mknod /mnt/m b 8 0 || echo no-node'"));
    CAPTURE(nested.errors);
    CHECK(nested.output == "mounted\nno-sysfs\nread-only\nno-lo\nno-node\n");
    // bwrap takes whoever has uid 0 for one who may mount, and asks for no user namespace of its own accord.
    const std::vector<std::string> wrap{"bwrap", "--unshare-user", "--ro-bind",     "/",    "/",      "--dev",
                                        "/dev",  "--unshare-pid",  "--unshare-net", "echo", "wrapped"};
    if (::access("/usr/bin/bwrap", X_OK) != 0) return;
    const probed wrapped = machine.run(caged(), wrap);
    CAPTURE(wrapped.errors);
    CHECK(wrapped.output == "wrapped\n");
    CHECK(machine.run(sealed(), wrap).status != 0);
    const auto as_nobody = machine.run(caged(), shell("setpriv --reuid 33 --regid 33 --clear-groups bwrap "
                                                      "--ro-bind / / --dev /dev --proc /proc echo wrapped"));
    CAPTURE(as_nobody.errors);
    CHECK(as_nobody.output == "wrapped\n");
}

TEST_CASE("a cage has a session keyring of its own, with no key of the keeper's") {
    cage_machine& machine = cage_machine::here();
    REQUIRE(::syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr) > 0);
    const long key = ::syscall(SYS_add_key, "user", "pinfold-canary", "canary-key", 10,
                               KEY_SPEC_SESSION_KEYRING);
    REQUIRE(key > 0);
    const std::string search =
        "import "
        "ctypes\nl=ctypes.CDLL(None)\nl.syscall.restype=ctypes.c_long\nb=ctypes.create_string_buffer(64)\n"
        "k=l.syscall(250,10,-3,b'user',b'pinfold-canary',0)\nn=l.syscall(250,11,k,b,64)\nprint(k>0,b.value "
        "if n>0 else '')";
    // keyctl itself is refused in every cage: three walls, and the last one shows what the first is worth.
    CHECK(machine.run(sealed(), python(search)).output == "False \n");
    CHECK(machine.run(sealed().without<join_keyring>(), python(search)).output == "False \n");
    CHECK(machine.run(sealed().without<filter_syscalls>(), python(search)).output == "False \n");
    CHECK(machine.run(sealed().without<filter_syscalls>().without<join_keyring>(), python(search))
              .says("True b'canary-key'"));
    (void)::syscall(SYS_keyctl, KEYCTL_UNLINK, key, KEY_SPEC_SESSION_KEYRING);
}

TEST_CASE("a cage has a hostname of its own and cannot change it") {
    cage_machine& machine = cage_machine::here();
    std::array<char, 256> before{};
    REQUIRE(::gethostname(before.data(), before.size() - 1) == 0);
    for (const cage_kind& kind : {sealed(), caged()}) {
        const std::vector<std::string> names = lines_of(
            machine
                .run(
                    kind,
                    shell(
                        "uname -n; cat /etc/hostname; getent hosts \"$(uname -n)\" >/dev/null && echo known"))
                .output);
        REQUIRE(names.size() == 3);
        CHECK(names[0].starts_with("test-7e57"));
        CHECK(names[1] == names[0]);
        CHECK(names[2] == "known");
        CHECK(machine.probe(kind, {"sethostname"}).says("EPERM"));
        CHECK(machine.run(kind.without<pinfold::set_hostname>(), {"uname", "-n"}).output ==
              std::string(before.data()) + "\n");
    }
    // Two walls against changing it: the filter, when sealed, and the missing CAP_SYS_ADMIN. It is the cage's own name.
    CHECK(machine.probe(sealed().without<filter_syscalls>().without<drop_capabilities>(), {"sethostname"})
              .status == 0);
    std::array<char, 256> after{};
    REQUIRE(::gethostname(after.data(), after.size() - 1) == 0);
    CHECK(std::string(before.data()) == after.data());
}

TEST_CASE("su, chown, setgroups and tar with owners work inside, as apt and dpkg need them") {
    cage_machine& machine = cage_machine::here();
    const std::string script =
        "su -s /bin/sh nobody -c 'id -u' && touch /tmp/f && chown 33:33 /tmp/f && stat -c %u:%g /tmp/f && "
        "setpriv --reuid 33 --regid 33 --groups 33,34 id -G && mkdir /tmp/d && chown 101:102 /tmp/d && "
        "tar -C /tmp -cf /tmp/t.tar d && rm -r /tmp/d && tar -C /tmp -xpf /tmp/t.tar && stat -c %u:%g /tmp/d "
        "&& "
        "chmod 4755 /tmp/f && stat -c %a /tmp/f";
    for (const cage_kind& kind : {sealed(), caged()}) {
        const probed done = machine.run(kind, shell(script));
        CAPTURE(done.errors);
        CHECK(done.output == "65534\n33:33\n33 34\n101:102\n4755\n");
        CHECK(machine.probe(kind, {"setuid", "33"}).status == 0);
        CHECK(machine.probe(kind, {"setuid", "70000"}).says("EINVAL")); // of no id that it has
    }
}

} // namespace
} // namespace pinfold::test
