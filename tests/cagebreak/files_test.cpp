// boundary.md, "Files": what a cage sees of the machine and of its owner, and what it may write.
#include "cagebreak/owner_place.hpp"
#include "support/catch.hpp"

#include <sys/xattr.h>

namespace pinfold::test {
namespace {

TEST_CASE("of all homes a cage sees the way to its project and nothing beside it") {
    cage_machine& machine = cage_machine::here();
    const owner_place homes;
    homes.file("alice/project/mine", "mine");
    homes.file("alice/.ssh/id_ed25519", "canary-key");
    homes.file("bob/notes", "canary-notes");
    for (const char* folder : {"alice", "alice/project"}) homes.folder(folder);
    const planted_mount planted(homes.path(), "/home");
    const std::string look =
        "find /home; cat /home/alice/.ssh/id_ed25519 /home/bob/notes /home/alice/project/mine";
    for (const cage_kind& mode : {sealed(), caged()}) {
        const cage_kind kind = mode.with_project("/home/alice/project", homes.owner());
        const probed seen = machine.run(kind, shell(look));
        CHECK(seen.output == "/home\n/home/alice\n/home/alice/project\n/home/alice/project/mine\nmine");

        const probed mutated = machine.run(kind.with_bind({"/home", "/home", false}), shell(look));
        CHECK(mutated.says("canary-key"));
    }
}

TEST_CASE("root's home, the keys and the sockets of the machine are not there") {
    cage_machine& machine = cage_machine::here();
    const owner_place planted(0);
    planted.file("canary", "canary");
    const planted_mount home(planted.path(), "/root");
    const std::string look =
        "ls -A /root; cat /root/canary; ls -A /etc/ssh | grep host_; ls -A /run; "
        "find / -xdev -type s 2>/dev/null; test -e /etc/machine-id && wc -c </etc/machine-id; "
        "grep -c '[$]' /etc/shadow; test -d /var/lib/dpkg && echo twin";
    const probed seen = machine.run(sealed(), shell(look));
    CAPTURE(seen.errors);
    CHECK(seen.output == "lock\n0\ntwin\n");

    CHECK(
        machine.run(sealed().with_bind({"/root", "/root", false}), shell("cat /root/canary")).says("canary"));
}

TEST_CASE("what a cage writes into its project is the owner's outside") {
    cage_machine& machine = cage_machine::here();
    for (const mode_t mode : {mode_t{0755}, mode_t{0700}}) {
        const owner_place project(1000, mode);
        project.file("before", "old", 0600);
        const cage_kind kind = sealed().with_project(project.path(), project.owner());
        const probed wrote = machine.run(
            kind,
            shell("stat -c %u:%g . before && cat before && echo new >before && echo x >file &&"
                  "mkdir -p a/b/c && echo deep >a/b/c/d && ln -s file link && rm -r a/b/c && mv file moved"));
        CAPTURE(mode, wrote.errors);
        REQUIRE(wrote.status == 0);
        CHECK(wrote.says("0:0\n0:0\nold"));
        CHECK(text_of(project.path() / "before") == "new\n");
        for (const auto& entry : std::filesystem::recursive_directory_iterator(project.path())) {
            CAPTURE(entry.path());
            CHECK(status_of(entry.path()).st_uid == 1000);
            CHECK(status_of(entry.path()).st_gid == 1000);
        }
        // The mutation: ids mapped for somebody else.
        const cage_kind others = sealed().with_project(project.path(), 1001);
        if (mode == 0700)
            CHECK_THROWS_AS(machine.run(others, {"true"}), cage_failure); // it cannot even enter it
        else
            CHECK(machine.run(others, shell("cat before; echo x >intruder")).status != 0);
        CHECK_FALSE(std::filesystem::exists(project.path() / "intruder"));
    }
}

TEST_CASE("a file of another owner in the project can be read as its mode says and never be taken over") {
    cage_machine& machine = cage_machine::here();
    const owner_place project;
    project.file("of-root", "readable");
    project.file("secret-of-root", "canary", 0600);
    check(::chown((project.path() / "of-root").c_str(), 0, 0), "give a file to root");
    check(::chown((project.path() / "secret-of-root").c_str(), 0, 0), "give a file to root");
    const cage_kind kind = sealed().with_project(project.path(), project.owner());
    const probed tried = machine.run(
        kind,
        shell("cat of-root; cat secret-of-root; echo x >>of-root; chown 0:0 of-root; chmod 777 of-root"));
    CHECK(tried.output == "readable");
    CHECK(tried.status != 0);
    CHECK(text_of(project.path() / "of-root") == "readable");
    CHECK((status_of(project.path() / "of-root").st_mode & 07777) == 0644);
    CHECK(
        machine
            .run(kind, shell("touch mine && chown 33:33 mine 2>/dev/null; chmod 700 mine && stat -c %u mine"))
            .output == "0\n");
}

TEST_CASE("a read-only directory of the owner refuses every write") {
    cage_machine& machine = cage_machine::here();
    const owner_place given;
    given.file("settings", "as before");
    const std::string write =
        "cat settings; echo x >settings; echo x >more; rm settings; mv settings s; chmod 777 settings; "
        "mount -o remount,rw . 2>/dev/null; touch . ; echo y >>settings";
    for (const cage_kind& kind : {sealed(), caged()}) {
        const probed refused = machine.run(kind.with_bind({given.path(), "/given", false}),
                                           shell("cd /given; " + write));
        CAPTURE(refused.errors);
        CHECK(refused.output == "as before");
        CHECK(lines_of(refused.errors).size() >= 7);
        CHECK(text_of(given.path() / "settings") == "as before");
        CHECK(std::distance(std::filesystem::directory_iterator(given.path()), {}) == 1);
        // The mutation, and the twin: a bind of root's, writable.
        const probed written = machine.run(
            kind.with_bind({given.path(), "/given", true}).with_project(given.path(), given.owner()),
            shell("echo x >/given/settings"));
        CHECK(written.status == 0);
        CHECK(text_of(given.path() / "settings") == "x\n");
        given.file("settings", "as before");
    }
}

TEST_CASE("a single file of the owner is bound where there was none, read-only") {
    cage_machine& machine = cage_machine::here();
    const owner_place given(1000);
    const std::filesystem::path source = given.file("gitconfig", "[user]");
    const cage_kind kind = sealed()
                               .with_project(given.folder("project"), 1000)
                               .with_bind({source, "/root/a/b/.gitconfig", false});
    const probed seen = machine.run(
        kind, shell("cat /root/a/b/.gitconfig; echo x >/root/a/b/.gitconfig || rm /root/a/b/.gitconfig"));
    CHECK(seen.output == "[user]");
    CHECK(seen.status != 0);
    CHECK(text_of(source) == "[user]");
}

TEST_CASE("setuid and setgid bits in a project give nobody inside any right (B39)") {
    cage_machine& machine = cage_machine::here();
    const owner_place project;
    const cage_kind kind = sealed().with_project(project.path(), project.owner());
    // nosuid belongs to every bind and has no step of its own; with no_new_privs left out (and the filter, which needs
    // it), it stands alone. Its twin is the sticky bit, and 755, which work.
    const cage_kind alone = kind.without<no_new_privileges>().without<filter_syscalls>();
    const std::string script =
        "cp /usr/bin/id id && chmod 6755 id && chmod 755 . && mkdir sticky && chmod 1777 sticky && "
        "setpriv --reuid 33 --regid 33 --clear-groups ./id";
    for (const cage_kind& each : {kind, alone}) {
        const probed tried = machine.run(each, shell(script));
        CAPTURE(tried.errors);
        CHECK(tried.status == 0);
        CHECK_FALSE(tried.says("euid"));
        CHECK_FALSE(tried.says("egid"));
        CHECK((status_of(project.path() / "sticky").st_mode & 07777) == 01777);
        // What remains: outside, the bit is the owner's own to set, and the file is the owner's.
        CHECK(status_of(project.path() / "id").st_uid == 1000);
        std::filesystem::remove_all(project.path() / "sticky");
    }
}

TEST_CASE("no file capability comes out of a project (B39)") {
    cage_machine& machine = cage_machine::here();
    const owner_place project;
    const cage_kind kind = sealed().with_project(project.path(), project.owner());
    const std::string set =
        "import os,struct\nopen('program','w')\n"
        "os.setxattr('program','security.capability',struct.pack('<IIIII',0x02000001,1<<21,0,0,0))";
    (void)machine.run(kind, python(set));
    // Set by root of a user namespace, it holds for programs of that namespace's root and for nobody of the machine:
    // the kernel writes its revision 3, with the id of the root that set it.
    std::array<unsigned char, 32> value{};
    const ssize_t size = ::getxattr((project.path() / "program").c_str(), "security.capability", value.data(),
                                    value.size());
    CHECK((size < 0 || (size == 24 && value[3] == 3)));
    CHECK(status_of(project.path() / "program").st_uid == 1000);
}

TEST_CASE("no device node is made in a cage, and one that lies in the project is not one inside (B39)") {
    cage_machine& machine = cage_machine::here();
    const owner_place project;
    check(::mknod((project.path() / "null").c_str(), S_IFCHR | 0666, 0x103), "make a node for a test");
    check(::lchown((project.path() / "null").c_str(), 1000, 1000), "give away a node");
    CHECK(std::ofstream(project.path() / "null").is_open()); // the twin: outside it is a device
    for (const cage_kind& mode : {sealed(), caged()}) {
        const cage_kind kind = mode.with_project(project.path(), project.owner());
        CHECK(machine.probe(kind, {"write", (project.path() / "null").native()}).says("EACCES"));
        for (const char* act : {"mknod-char", "mknod-block"}) {
            CHECK(machine.probe(kind, {act}).says("EPERM"));
            // Two walls: without the filter the kernel itself refuses whoever is not root of the machine.
            CHECK(machine.probe(kind.without<filter_syscalls>(), {act}).says("EPERM"));
        }
        CHECK(machine.probe(kind, {"mknod-fifo"}).status == 0);
    }
}

} // namespace
} // namespace pinfold::test
