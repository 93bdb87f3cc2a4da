// What a cage leaves in its project: nothing of ours runs it, and what the owner could run by accident is known.
#include "cagebreak/owner_place.hpp"
#include "support/catch.hpp"

namespace pinfold::test {
namespace {

// Each way in which git runs a program that a repository names, set to leave a file of its own name.
const std::string planted = R"(set -e
export HOME=/root
git init -q . && git config user.name n && git config user.email e@example.com
echo one >file && git add file && git commit -qm one
mark() { printf '#!/bin/sh\ntouch %s/ran-%s\ncat\n' "$PWD" "$1" >"tool-$1" && chmod 755 "tool-$1"; }
for name in fsmonitor filter external hook ssh pager; do mark $name; done
printf '#!/bin/sh\ntouch %s/ran-fsmonitor\nprintf "/\\0"\n' "$PWD" >tool-fsmonitor
git config core.fsmonitor "$PWD/tool-fsmonitor"
git config filter.mine.clean "$PWD/tool-filter"
git config diff.external "$PWD/tool-external"
git config core.sshCommand "$PWD/tool-ssh"
git config core.pager "$PWD/tool-pager"
echo '* filter=mine' >.gitattributes
for hook in post-index-change post-checkout pre-commit; do cp tool-hook .git/hooks/$hook; done
echo two >file
)";

std::vector<std::string> marks_in(const std::filesystem::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        const std::string name = entry.path().filename();
        if (name.starts_with("ran-")) names.push_back(name);
    }
    std::ranges::sort(names);
    return names;
}

TEST_CASE("B35 what a cage plants for git is run by nothing of ours: not at its end, not at the next start") {
    cage_machine& machine = cage_machine::here();
    const owner_place project(1000);
    for (const cage_kind& mode : {sealed(), caged()}) {
        const cage_kind kind = mode.with_project(project.path(), project.owner());
        const probed made = machine.run(kind,
                                        shell("rm -rf .git .gitattributes; " + planted + "rm -f ran-*"));
        CAPTURE(made.output, made.errors);
        REQUIRE(made.status == 0);
        // The whole life of a cage on that project: made, entered, ended.
        const auto cage = machine.start(kind, {"sleep", "1000"});
        CHECK(cage->enter({"true"}).status == 0);
        CHECK(cage->built().destroy());
        CHECK(marks_in(project.path()).empty());
        // The twin: in a cage the owner may ask git whatever they like.
        CHECK(machine.run(kind, shell("HOME=/root git status --short")).says(" M file"));
        CHECK(marks_in(project.path()) ==
              std::vector<std::string>{"ran-filter", "ran-fsmonitor", "ran-hook"});
        CHECK(machine.run(kind, shell("rm -f ran-*; HOME=/root git stash -q; rm -f ran-*")).status == 0);
    }
    // What was planted does work, for whoever runs git on it outside: that is what the owner is told about.
    const std::string outside = fmt::format("cd {} && HOME=/nonexistent setpriv --reuid 1000 --regid 1000 "
                                            "--clear-groups git status --short >/dev/null 2>&1",
                                            project.path().native());
    CHECK(std::system(outside.c_str()) == 0);
    CHECK_FALSE(marks_in(project.path()).empty());
}

TEST_CASE("B35 commit, branch, stash and fetch work in a cage") {
    cage_machine& machine = cage_machine::here();
    const owner_place project(1000);
    const cage_kind kind = sealed().with_project(project.path(), project.owner());
    const probed ran = machine.run(
        kind,
        shell("set -e\nexport HOME=/root\ngit init -q a && cd a && git config user.name n && git config "
              "user.email e@example.com\necho 1 >f && git add f && git commit -qm one && git checkout -qb "
              "side\n"
              "echo 2 >f && git stash -q && test $(cat f) = 1 && git stash pop -q && git commit -qam two\n"
              "cd .. && git clone -q a b && cd b && git fetch -q && git log --oneline | wc -l"));
    CAPTURE(ran.errors);
    CHECK(ran.output == "2\n");
}

// By every call there is that gives a file its mode; the numbers of the newer ones are the same everywhere.
TEST_CASE(
    "B39 a setuid file that a cage makes belongs to the project's owner alone, and is worth nothing inside") {
    cage_machine& machine = cage_machine::here();
    const owner_place project(1000);
    const std::string ways =
        "import ctypes, os, shutil\nl = ctypes.CDLL(None, use_errno=True)\n"
        "os.umask(0)\n"
        "def copy(name): shutil.copyfile('/usr/bin/id', name); os.chmod(name, 0o755); return name.encode()\n"
        "os.chmod(copy('a'), 0o6755)\n"
        "fd = os.open(copy('b'), os.O_RDONLY); os.fchmod(fd, 0o6755)\n"
        "l.syscall(268, -100, copy('c'), 0o6755)\n"    // fchmodat
        "l.syscall(452, -100, copy('d'), 0o6755, 0)\n" // fchmodat2
        "fd = os.open('e', os.O_CREAT | os.O_WRONLY, 0o6755); os.write(fd, open('/usr/bin/id', "
        "'rb').read()); "
        "os.close(fd)\n"
        "os.mknod('f', 0o106755)\n"
        "os.mkdir('folder', 0o2755)\n"
        "for name in 'abcde': print(name, os.popen('setpriv --reuid 33 --regid 33 --clear-groups ./' + "
        "name).read().strip())\n";
    for (const cage_kind& mode : {sealed(), caged()}) {
        const cage_kind kind = mode.with_project(project.path(), project.owner());
        const probed tried = machine.run(kind, python(ways));
        CAPTURE(tried.output, tried.errors);
        CHECK(tried.says("a uid=33"));
        CHECK_FALSE(tried.says("euid"));
        CHECK_FALSE(tried.says("egid"));
        for (const auto& entry : std::filesystem::directory_iterator(project.path())) {
            CAPTURE(entry.path());
            const struct stat seen = status_of(entry.path());
            CHECK(seen.st_uid == 1000); // never the machine's root, nor an id of another cage
            CHECK(seen.st_gid == 1000);
            CHECK((S_ISREG(seen.st_mode) || S_ISDIR(seen.st_mode)));
            std::filesystem::remove_all(entry.path());
        }
        // The twin: modes that give nobody more than they had.
        CHECK(
            machine
                .run(
                    kind,
                    shell(
                        "touch f && chmod 755 f && mkdir d && chmod 1777 d && tar -cf t.tar f d && rm -r f d "
                        "&& tar -xf t.tar && stat -c %a f d && rm -r f d t.tar"))
                .output == "755\n1777\n");
    }
}

} // namespace
} // namespace pinfold::test
