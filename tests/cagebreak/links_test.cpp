// boundary.md, "Files": targets of mounts are opened beneath the new root, and no link is followed on the way.
#include "cagebreak/owner_place.hpp"
#include "support/catch.hpp"

namespace pinfold::test {
namespace {

using Catch::Matchers::ContainsSubstring;

constexpr std::uint32_t kept_base = 0x7ffd0000;

// What a cage with kept files left behind, with links where the next start mounts and writes.
class kept_upper {
public:
    kept_upper() {
        for (const char* part : {"", "0", "0/upper", "0/work", "1", "1/upper", "1/work"}) {
            const std::filesystem::path made = place_.folder(part);
            check(::chown(made.c_str(), kept_base, kept_base), "give a kept folder to a cage");
        }
    }
    void link(const std::string& name, const std::filesystem::path& to) const {
        const std::filesystem::path path = place_.path() / "0/upper" / name;
        std::filesystem::create_directories(path.parent_path());
        std::filesystem::create_symlink(to, path);
    }
    [[nodiscard]] cage_kind in(const cage_kind& kind) const {
        return kind.with_kept_files(place_.path(), kept_base);
    }

private:
    owner_place place_;
};

// "" where the cage started and ran.
std::string start_says(const cage_kind& kind) {
    try {
        const probed ran = cage_machine::here().run(
            kind, shell("mount >/dev/null 2>&1; echo x >/tmp/file; echo ran"));
        return ran.says("ran") ? "" : ran.output + ran.errors;
    } catch (const std::exception& error) {
        return error.what();
    }
}

std::size_t entries(const std::filesystem::path& folder) {
    return static_cast<std::size_t>(std::distance(std::filesystem::recursive_directory_iterator(folder), {}));
}

TEST_CASE("a link left where a mount goes ends the start with its name (B33)") {
    const owner_place victim;
    victim.file("hosts", "as before");
    victim.folder("lock");
    const std::size_t before = entries(victim.path());
    const std::string pattern = text_of("/proc/sys/kernel/core_pattern");
    for (const char* name : {"dev", "proc", "sys", "run", "usr"}) {
        for (const std::filesystem::path& to :
             {victim.path(), std::filesystem::path("/etc"), std::filesystem::path("/proc/sys/kernel"),
              std::filesystem::path("../../../.."), std::filesystem::path("nowhere")}) {
            CAPTURE(name, to);
            const kept_upper upper;
            upper.link(name, to);
            const std::string said = start_says(upper.in(sealed()));
            CHECK_THAT(said,
                       ContainsSubstring(std::string(name) == "usr" ? "layer" : "/" + std::string(name)));
        }
    }
    CHECK(entries(victim.path()) == before);
    CHECK(text_of(victim.path() / "hosts") == "as before");
    CHECK(text_of("/proc/sys/kernel/core_pattern") == pattern);
}

TEST_CASE("a link left where a file is written stays inside or ends the start (B33)") {
    const owner_place victim;
    for (const char* name : {"hosts", "hostname", "resolv.conf"}) victim.file(name, "as before");
    const std::string hosts = text_of("/etc/hosts");
    for (const char* name : {"etc/hosts", "etc/resolv.conf", "etc/hostname", "etc", "tmp"}) {
        for (const std::filesystem::path& to :
             {victim.path(), victim.path() / "hosts", std::filesystem::path("/proc/sys/kernel/core_pattern"),
              std::filesystem::path("/etc/passwd")}) {
            CAPTURE(name, to);
            const kept_upper upper;
            upper.link(name, to);
            (void)start_says(upper.in(sealed()));
        }
    }
    for (const char* name : {"hosts", "hostname", "resolv.conf"})
        CHECK(text_of(victim.path() / name) == "as before");
    CHECK(entries(victim.path()) == 3);
    CHECK(text_of("/etc/hosts") == hosts);
}

TEST_CASE("a link on the way to a bind ends the start, and nothing is made behind it (B33)") {
    const owner_place victim(1000, 0777);
    const owner_place project;
    const owner_place given;
    given.file("file", "text");
    // In the project, which another cage of the owner may be writing to.
    std::filesystem::create_symlink(victim.path(), project.path() / ".claude");
    std::filesystem::create_symlink(victim.path() / "new", project.path() / "dangling");
    const cage_kind kind = sealed().with_project(project.path(), project.owner());
    for (const char* target : {".claude", ".claude/skills", ".claude/a/b/c", "dangling", "dangling/a"}) {
        CAPTURE(target);
        CHECK_THAT(start_says(kind.with_bind({given.path(), project.path() / target, false})),
                   ContainsSubstring("a link on the way"));
        CHECK_THAT(start_says(kind.with_bind({given.path() / "file", project.path() / target, false})),
                   ContainsSubstring("a link on the way"));
    }
    // In what the cage kept.
    for (const char* name : {"outbox", "root"}) {
        const kept_upper upper;
        upper.link(name, victim.path());
        CHECK_THAT(start_says(upper.in(sealed()).with_bind(
                       {given.path(), std::string("/") + name + "/settings", false})),
                   ContainsSubstring("a link on the way"));
    }
    CHECK(entries(victim.path()) == 0);
    // The twin: ordinary folders and files of the same names.
    const owner_place plain;
    plain.folder(".claude");
    plain.file(".claude/settings", "{}");
    for (const char* name : {"dev", "proc", "run", "tmp", "etc", "sys", ".config"}) plain.folder(name);
    const cage_kind twin = sealed().with_project(plain.path(), plain.owner());
    CHECK(start_says(twin.with_bind({given.path(), plain.path() / ".claude/skills", false})).empty());
    CHECK(start_says(twin.with_bind({given.path() / "file", plain.path() / ".claude/settings", false}))
              .empty());
    const kept_upper upper;
    CHECK(start_says(upper.in(sealed())).empty());
    CHECK(start_says(upper.in(sealed())).empty()); // once more, with what the first start left
}

TEST_CASE("nothing is made behind a link that another cage swaps in while cages start (B33)") {
    cage_machine& machine = cage_machine::here();
    const owner_place victim(1000, 0777);
    const owner_place project;
    const owner_place given;
    const cage_kind kind = sealed().with_project(project.path(), project.owner());
    const auto swapping = machine.start(
        kind, python("import os\nos.makedirs('a/b',exist_ok=True)\nos.symlink('" + victim.path().native() +
                     "','l')\n"
                     "import ctypes\nlibc=ctypes.CDLL(None)\n"
                     "while True: libc.renameat2(-100,b'a',-100,b'l',2)"));
    unsigned started = 0;
    unsigned refused = 0;
    for (int i = 0; i < 60; ++i) {
        const std::string said = start_says(kind.with_bind({given.path(), project.path() / "a/b/c", false}));
        (said.empty() ? started : refused) += 1;
        CAPTURE(said);
        CHECK((said.empty() || said.find("a link on the way") != std::string::npos));
    }
    CAPTURE(started, refused);
    CHECK(refused > 0); // or the race was not run
    CHECK(started > 0);
    CHECK(entries(victim.path()) == 0);
}

} // namespace
} // namespace pinfold::test
