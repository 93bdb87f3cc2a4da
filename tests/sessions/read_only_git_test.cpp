// --read-only-git: what of a git folder is laid over it, of which folders that cannot be promised, and that a session
// keeps the wish. That it holds in a cage is shown by tests/whole/left_behind_test.cpp.
#include "agent/git_folder.hpp"
#include "agent/harness/harness.hpp"
#include "agent/run_request.hpp"
#include "session_fixture.hpp"
#include "support/catch.hpp"
#include "support/fake_keeper.hpp"

#include <algorithm>
#include <fstream>
#include <sys/stat.h>
#include <tuple>

namespace pinfold::test {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

void put(const fs::path& file, const std::string& text) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
}

struct repository {
    repository() {
        put(path() / ".git/HEAD", "ref: refs/heads/main\n");
        put(path() / ".git/config", "[core]\n\tbare = false\n");
        put(path() / ".git/hooks/pre-commit", "#!/bin/sh\n");
    }
    [[nodiscard]] const fs::path& path() const { return scratch.path(); }
    [[nodiscard]] fs::path git(const std::string& name) const { return path() / ".git" / name; }
    // "rw .git", "ro .git/config": in the order in which they are laid.
    [[nodiscard]] std::vector<std::string> laid() const {
        std::vector<std::string> list;
        for (const bind_spec& each : read_only_git(path())) {
            CHECK(each.source == each.target);
            list.push_back((each.writable ? "rw " : "ro ") + each.target.lexically_relative(path()).native());
        }
        return list;
    }
    // Why it is refused; the folder is as it was before.
    [[nodiscard]] std::string refusal() const {
        std::string said;
        try {
            complete_git_folder(path());
            std::ignore = read_only_git(path());
        } catch (const bad_request& error) {
            said = error.what();
        }
        return said;
    }

    scratch_directory scratch;
};

using words = std::vector<std::string>;

} // namespace

TEST_CASE("B35 a git folder is laid over itself, and its settings and hooks over it, read-only") {
    const repository at;
    CHECK(at.laid() == words{"rw .git", "ro .git/config", "ro .git/hooks"});
    put(at.git("config.worktree"), "");
    put(at.git("info/exclude"), "");
    CHECK(at.laid() == words{"rw .git", "ro .git/config", "ro .git/config.worktree", "ro .git/hooks"});
    put(at.git("info/attributes"), "");
    CHECK(at.laid() == words{"rw .git", "ro .git/config", "ro .git/config.worktree", "ro .git/hooks",
                             "rw .git/info", "ro .git/info/attributes"});
}

TEST_CASE("B35 what git would read and is not there is made beforehand, so that no cage makes it") {
    const repository at;
    fs::remove_all(at.git("hooks"));
    fs::remove(at.git("config"));
    complete_git_folder(at.path());
    CHECK(fs::is_empty(at.git("hooks")));
    CHECK(fs::file_size(at.git("config")) == 0);
    CHECK_FALSE(fs::exists(at.git("config.worktree")));
    put(at.git("config"), "[extensions]\n\tworktreeConfig = true\n");
    complete_git_folder(at.path());
    CHECK(fs::file_size(at.git("config")) > 20);
    CHECK(fs::file_size(at.git("config.worktree")) == 0);
    CHECK(at.laid() == words{"rw .git", "ro .git/config", "ro .git/config.worktree", "ro .git/hooks"});
}

TEST_CASE(
    "B35 a git folder of which it cannot be promised is refused with the reason, and no link followed") {
    const repository at, other;
    CHECK(at.refusal().empty());
    SECTION("none") {
        fs::remove_all(at.path() / ".git");
        CHECK_THAT(at.refusal(), ContainsSubstring("has no .git"));
        CHECK(fs::is_empty(at.path()));
    }
    SECTION("a worktree's file") {
        fs::remove_all(at.path() / ".git");
        put(at.path() / ".git", "gitdir: " + other.git("").native());
        CHECK_THAT(at.refusal(), ContainsSubstring(".git is a file"));
    }
    SECTION("a link to another") {
        fs::remove_all(at.path() / ".git");
        fs::remove_all(other.git("hooks"));
        fs::create_directory_symlink(other.git(""), at.path() / ".git");
        CHECK_THAT(at.refusal(), ContainsSubstring(".git is a link"));
        CHECK_FALSE(fs::exists(other.git("hooks")));
    }
    SECTION("settings that are a link") {
        fs::remove(at.git("config"));
        fs::create_symlink(other.git("config"), at.git("config"));
        CHECK_THAT(at.refusal(), ContainsSubstring(".git/config is a link"));
    }
    SECTION("settings with a second name") {
        fs::create_hard_link(at.git("config"), at.path() / "second");
        CHECK_THAT(at.refusal(), ContainsSubstring(".git/config has 2 names"));
    }
    SECTION("hooks that are a link") {
        fs::rename(at.git("hooks"), at.path() / "hooks");
        fs::create_directory_symlink("../hooks", at.git("hooks"));
        CHECK_THAT(at.refusal(), ContainsSubstring(".git/hooks is no folder"));
    }
    SECTION("a hook that is a link") {
        fs::create_symlink("../../tool", at.git("hooks/post-merge"));
        CHECK_THAT(at.refusal(), ContainsSubstring(".git/hooks/post-merge is a link"));
    }
    SECTION("a hook with a second name") {
        fs::create_hard_link(at.git("hooks/pre-commit"), at.path() / "second");
        CHECK_THAT(at.refusal(), ContainsSubstring(".git/hooks/pre-commit has 2 names"));
    }
    SECTION("settings elsewhere") {
        put(at.git("commondir"), "../elsewhere");
        CHECK_THAT(at.refusal(), ContainsSubstring(".git/commondir leads git to settings elsewhere"));
    }
    SECTION("FIFOs") {
        fs::remove(at.git("config"));
        REQUIRE(::mkfifo(at.git("config").c_str(), 0600) == 0);
        CHECK_THAT(at.refusal(), ContainsSubstring(".git/config is no plain file"));
    }
}

TEST_CASE(
    "B35 a session keeps its read-only git over its own restart and its agent's, and its cage gets it") {
    session_fixture with;
    fake_keeper keeper(with.agent.keeper_socket());
    REQUIRE(eventually([&] { return with.get("/v1/harnesses").body["cage"]["available"] == true; }));
    const auto asked = [&](const json& cage) {
        return with.create({{"harness", "command"}, {"command", {"/bin/sh", "-s"}}, {"cage", cage}});
    };
    // No repository, no session that only seems to be kept from changing it.
    const answered refused = asked({{"read_only_git", true}});
    CHECK(refused.status == 400);
    CHECK_THAT(refused.body.value("error", ""), ContainsSubstring("has no .git"));
    CHECK(with.get("/v1/sessions/heron").status == 404);

    put(with.project() / ".git/config", "");
    const answered made = asked({{"read_only_git", true}});
    CAPTURE(made.text);
    REQUIRE(made.status == 201);
    CHECK(made.body["cage"]["read_only_git"] == true);
    const auto ran = [&] { // what git folder the cage of one more message gets
        const unsigned before = keeper.makes;
        REQUIRE(with.send("true").status == 202);
        REQUIRE(eventually([&] { return keeper.makes > before && !with.info().value("running", true); }));
        words list;
        for (const bind_spec& each : keeper.last_spec.binds)
            if (each.target.native().find("/.git") != std::string::npos)
                list.push_back((each.writable ? "rw " : "ro ") +
                               each.target.lexically_relative(keeper.last_spec.project).native());
        return list;
    };
    const words all{"rw .git", "ro .git/config", "ro .git/hooks"};
    CHECK(ran() == all);
    CHECK(std::ranges::find(keeper.last_spec.command.environment, read_only_git_variable) !=
          keeper.last_spec.command.environment.end());
    CHECK(fs::is_directory(with.project() / ".git/hooks")); // made, since the cage could have made it
    REQUIRE(with.post("/v1/sessions/heron/restart").status == 204);
    CHECK(ran() == all);
    with.agent.stop(SIGKILL);
    with.agent.start();
    REQUIRE(eventually([&] { return with.get("/v1/harnesses").body["cage"]["available"] == true; }));
    CHECK(with.info()["cage"]["read_only_git"] == true);
    CHECK(ran() == all);

    // A start is refused where the folder is another by now; a move without the word is one without the option.
    put(with.project() / ".git/commondir", "../other");
    CHECK(with.send("true").status == 409);
    CHECK(with.post("/v1/sessions/heron/cage", {{"cage", {{"read_only_git", true}}}}).status == 400);
    REQUIRE(with.post("/v1/sessions/heron/cage", {{"cage", json::object()}}).status == 200);
    CHECK_FALSE(with.info()["cage"].contains("read_only_git"));
    CHECK(ran().empty());
}

TEST_CASE("B35 an agent is told of read-only git in words, and only where it is on") {
    for (const harness::kind* each : harness::all()) {
        if (each->one_turn()) continue; // it has no prompt; the variable says it
        harness::start how{.session = "heron", .machine = "here", .program = "/bin/true"};
        const auto says = [&] {
            return std::ranges::any_of(each->arguments(how), [](const std::string& word) {
                return word.find(".git/config and .git/hooks of this project read-only") != std::string::npos;
            });
        };
        CHECK_FALSE(says());
        how.read_only_git = true;
        CHECK(says());
    }
}

} // namespace pinfold::test
