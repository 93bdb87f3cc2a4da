// What an owner may hand to a cage: keeper/owners, with real owners and their rights.
#include "cagebreak/owner_place.hpp"
#include "keeper/owners.hpp"
#include "support/catch.hpp"

namespace pinfold::test {
namespace {

using Catch::Matchers::ContainsSubstring;

constexpr uid_t alice_id = 1234;

// Alice's home, known to the machine's /etc/passwd for this test alone.
class alice_home {
public:
    alice_home() : place_(alice_id), passwd_(0), planted_(passwd_.file("passwd", line()), "/etc/passwd") {
        place_.folder("alice");
    }
    [[nodiscard]] std::filesystem::path path() const { return place_.path() / "alice"; }
    [[nodiscard]] const owner_place& place() const { return place_; }
    [[nodiscard]] std::filesystem::path folder(const std::string& name, mode_t mode = 0755) const {
        return place_.folder("alice/" + name, mode);
    }

private:
    [[nodiscard]] std::string line() const {
        return text_of("/etc/passwd") +
               fmt::format("alice:x:{0}:{0}::{1}:/bin/sh\n", alice_id, path().native());
    }
    owner_place place_;
    owner_place passwd_;
    planted_mount planted_;
};

const owner alice{.uid = alice_id, .gid = alice_id, .groups = {}};

// "" where it may be a project.
std::string refusal(const std::filesystem::path& path, cage_mode mode = cage_mode::sealed,
                    const owner& who = alice) {
    try {
        const unique_fd found = open_as(who, path);
        check_project(who, path, found.get(), mode);
        return "";
    } catch (const std::exception& error) {
        return error.what();
    }
}

TEST_CASE("a sealed project is neither its owner's home nor above it") {
    (void)cage_machine::here();
    const alice_home home;
    const std::filesystem::path project = home.folder("project");
    for (const std::filesystem::path& path : {home.path(), home.place().path(), home.path() / "project/..",
                                              home.path() / ".", std::filesystem::path("/")}) {
        CAPTURE(path);
        CHECK_THAT(refusal(path), ContainsSubstring("home"));
        CHECK(refusal(path, cage_mode::caged).empty()); // the twin: one mode alone has this rule
    }
    CHECK(refusal(project).empty());
    CHECK(refusal(home.folder("with spaces, Ü and .dots")).empty());
    // By another spelling it is the same place.
    const owner_place elsewhere(alice_id);
    const planted_mount second(home.path(), elsewhere.path().native());
    CHECK_THAT(refusal(elsewhere.path()), ContainsSubstring("home"));
}

TEST_CASE("a sealed project holds no credentials and is no place of credentials") {
    (void)cage_machine::here();
    const alice_home home;
    for (const char* name : {".ssh", ".gnupg", ".aws", ".config/gh", ".claude"}) {
        CAPTURE(name);
        const std::filesystem::path project = home.folder("project");
        CHECK(refusal(project).empty());
        (void)home.folder(std::string("project/") + name, 0700);
        CHECK_THAT(refusal(project), ContainsSubstring(name));
        CHECK(refusal(project, cage_mode::caged).empty());
        CHECK_THAT(refusal(project / name), ContainsSubstring(name)); // itself
        std::filesystem::remove_all(project);

        (void)home.folder("project");
        std::filesystem::create_directories((project / name).parent_path());
        std::filesystem::create_symlink("/nowhere", project / name); // a link counts, dangling or not
        CHECK_THAT(refusal(project), ContainsSubstring(name));
        std::filesystem::remove_all(project);
    }
    CHECK(refusal(home.folder("project/.config")).empty());
    CHECK(refusal(home.folder("project/.claude/worktrees/one")).empty()); // where Claude Code puts them
    CHECK_THAT(refusal(home.folder(".ssh/project")), ContainsSubstring(".ssh"));
}

TEST_CASE("a link in the path is refused, wherever it leads (B37)") {
    (void)cage_machine::here();
    const alice_home home;
    (void)home.folder("project/inner");
    std::filesystem::create_symlink("project", home.path() / "link");
    for (const cage_mode mode : {cage_mode::sealed, cage_mode::caged}) {
        CHECK_THAT(refusal(home.path() / "link", mode), ContainsSubstring("link"));
        CHECK_THAT(refusal(home.path() / "link/inner", mode), ContainsSubstring("link"));
        CHECK_THAT(refusal(fmt::format("/proc/self/root{}", (home.path() / "project").native()), mode),
                   ContainsSubstring("link"));
        CHECK(refusal(home.path() / "project/inner", mode).empty());
        CHECK(refusal(home.path() / "project/", mode).empty());
    }
}

TEST_CASE("what is no directory, not there, or not writable is no project, and the message says which") {
    (void)cage_machine::here();
    const alice_home home;
    const std::filesystem::path file = home.place().file("alice/file", "text");
    const std::filesystem::path fifo = home.path() / "fifo";
    check(::mkfifo(fifo.c_str(), 0666), "make a fifo");
    for (const cage_mode mode : {cage_mode::sealed, cage_mode::caged}) {
        CHECK_THAT(refusal(file, mode), ContainsSubstring("not a directory"));
        CHECK_THAT(refusal(fifo, mode),
                   ContainsSubstring("not a directory")); // and does not wait for a writer
        CHECK_THAT(refusal(home.path() / "nothing", mode), ContainsSubstring("nothing"));
        CHECK_THAT(refusal(home.path() / std::string(4096, 'x'), mode), ContainsSubstring("too long"));

        const std::filesystem::path project = home.folder("project");
        CHECK(refusal(project, mode).empty());
        const planted_mount read_only(project, project.native());
        check(::mount(nullptr, project.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr),
              "remount read-only");
        CHECK_THAT(refusal(project, mode), ContainsSubstring("read-only"));
    }
}

TEST_CASE("a directory that its owner may not read is no project, and the owner is named") {
    (void)cage_machine::here();
    const alice_home home;
    const owner_place bobs(4321, 0700);
    bobs.folder("project");
    const std::string uid = std::to_string(alice_id);
    for (const cage_mode mode : {cage_mode::sealed, cage_mode::caged}) {
        CHECK_THAT(refusal(bobs.path(), mode), ContainsSubstring(uid));
        CHECK_THAT(refusal(bobs.path() / "project", mode),
                   ContainsSubstring(uid)); // readable itself, but behind a wall
        CHECK(refusal(bobs.path() / "project", mode, owner{.uid = 4321, .gid = 4321, .groups = {}}).empty());
        CHECK_THAT(refusal("/etc/ssl/private", mode), ContainsSubstring(uid));
    }
    // By a group, and only with it.
    const owner_place shared(4321, 0770);
    check(::chown(shared.path().c_str(), 4321, 999), "give a folder to a group");
    CHECK_THAT(refusal(shared.path()), ContainsSubstring(uid));
    CHECK(refusal(shared.path(), cage_mode::sealed, owner{.uid = alice_id, .gid = alice_id, .groups = {999}})
              .empty());
    // Afterwards the keeper is itself again.
    CHECK(text_of(home.place().file("alice/private", "text", 0600)) == "text");
    CHECK(::getgroups(0, nullptr) == 0);
}

} // namespace
} // namespace pinfold::test
