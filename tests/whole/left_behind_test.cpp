// What a session's cage may do to its project's git folder, and what it may leave, with a real keeper and agent.
#include "base/error.hpp"
#include "base/file.hpp"
#include "sessions/session_fixture.hpp"
#include "support/catch.hpp"
#include "whole/whole_machine.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <sys/stat.h>
#include <tuple>

namespace pinfold::test {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

class left_machine {
public:
    left_machine() {
        // Outside, by the owner: a repository with settings, a hook, and another one to fetch from.
        outside("git init -q . && git config user.name n && git config user.email e@example.com && "
                "echo one >file && git add file && git commit -qm one && "
                "printf '#!/bin/sh\\nexit 0\\n' >.git/hooks/pre-commit && chmod 755 .git/hooks/pre-commit && "
                "git clone -q --bare . up.git && git remote add origin ./up.git && echo /up.git "
                ">.git/info/exclude && echo '*.x diff=x' >.git/info/attributes");
        REQUIRE(machine_.run({"ls"}).status == 0);
        api_.emplace(machine_.home() / "run/pinfold/api.sock");
    }

    [[nodiscard]] const api_client& api() const { return *api_; }
    [[nodiscard]] whole_machine& machine() { return machine_; }
    [[nodiscard]] fs::path project() const { return machine_.project(); }
    void outside(const std::string& script) const {
        const std::string line = fmt::format(
            "cd {} && env -i PATH=/usr/bin:/bin HOME=/nonexistent setpriv --reuid {} --regid {} "
            "--clear-groups sh -ec '{}'",
            project().native(), owner_id, owner_id, quoted(script));
        REQUIRE(std::system(line.c_str()) == 0);
    }
    void make(const std::string& name, const json& cage) const {
        const answered made = api().post("/v1/sessions", {{"name", name},
                                                          {"dir", project().native()},
                                                          {"harness", "command"},
                                                          {"command", {"/bin/sh", "-s"}},
                                                          {"cage", cage}});
        CAPTURE(made.text);
        REQUIRE(made.status == 201);
    }
    // What this shell script says that runs as the session.
    [[nodiscard]] std::string said(const std::string& session, const std::string& script) const {
        const json before = api().get("/v1/sessions/" + session).body;
        event_reader events(machine_.home() / "run/pinfold/api.sock",
                            "/v1/sessions/" + session + "/events?after=" + before["last_seq"].dump());
        REQUIRE(api().post("/v1/sessions/" + session + "/messages", {{"text", script}}).status == 202);
        const json answer = events.wait_for_claude("assistant");
        REQUIRE_FALSE(answer.is_null());
        REQUIRE_FALSE(events.wait_for("stopped").is_null());
        return answer["data"]["message"]["content"][0]["text"];
    }
    // What git obeys, as it is on the machine: text and mode by name.
    [[nodiscard]] std::map<std::string, std::string> obeyed() const {
        std::map<std::string, std::string> all;
        for (const auto& each : fs::recursive_directory_iterator(project() / ".git")) {
            const std::string name = each.path().lexically_relative(project());
            if (!each.is_regular_file() ||
                (name != ".git/config" && name != ".git/info/attributes" && !name.starts_with(".git/hooks/")))
                continue;
            struct stat seen{};
            REQUIRE(::lstat(each.path().c_str(), &seen) == 0);
            all[name] = fmt::format("{:o} {}", seen.st_mode, read_file(each.path()));
        }
        return all;
    }

private:
    [[nodiscard]] static std::string quoted(std::string text) {
        for (std::size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 4)
            text.replace(at, 1, "'\\''");
        return text;
    }

    whole_machine machine_;
    std::optional<api_client> api_;
};

// Each way to change what git obeys; says, in one line, those that did not fail.
const std::string changing = R"(
try() { name=$1; shift; ( "$@" ) >/dev/null 2>&1 && printf '%s ' "$name"; }
cp .git/config new
try config git config core.fsmonitor 'touch ran'
try worktree-config git config --worktree core.fsmonitor 'touch ran'
try append sh -c 'echo "[core]" >>.git/config'
try hook sh -c 'echo "touch ran" >.git/hooks/post-checkout'
try change-hook sh -c 'echo "touch ran" >>.git/hooks/pre-commit'
try attributes sh -c 'echo "* filter=x" >>.git/info/attributes'
try move-over mv new .git/config
try chmod chmod 777 .git/hooks/pre-commit
try second-name ln .git/config second
try move-hooks sh -c 'mv .git/hooks .git/other && mv .git/other .git/hooks'
try move-info sh -c 'mv .git/info .git/other && mv .git/other .git/info'
try move-git sh -c 'mv .git other && mv other .git'
try remove-hook rm .git/hooks/pre-commit
try remove-hooks rm -r .git/hooks
echo .
)";
const words ways{"config",     "worktree-config", "append",      "hook",        "change-hook",
                 "attributes", "move-over",       "chmod",       "second-name", "move-hooks",
                 "move-info",  "move-git",        "remove-hook", "remove-hooks"};

// They need a right that no cage has, whatever its options: what they reach is never changed.
const std::string mounting = R"(
write='echo "[core]" >>.git/config'
cat >/tmp/mounts.py <<'END'
import ctypes, struct, sys
libc = ctypes.CDLL(None)
path = sys.argv[1].encode()
libc.syscall(442, -100, path, 0, struct.pack("<QQQQ", 0, 1, 0, 0), 32)  # mount_setattr: not read-only
tree = libc.syscall(428, -100, path, 1)  # open_tree, a clone
if tree >= 0: libc.syscall(429, tree, b"", -100, b"/mnt", 4)
END
for over in .git/config .git/hooks .git; do
    umount $over; umount -l $over; mount -o remount,bind,rw $over; mount --bind /tmp $over
    unshare -Urm sh -c "umount $over; $write"; unshare -Urm sh -c "mount -o remount,bind,rw $over; $write"
    unshare -m sh -c "umount $over; $write"
    python3 /tmp/mounts.py $over
    sh -c "$write"
done >/dev/null 2>&1
echo tried
)";

} // namespace

TEST_CASE("B35 with read-only git a cage changes no setting and no hook, by no means, and works with git") {
    left_machine with;
    const auto before = with.obeyed();
    REQUIRE(before.size() > 3);
    for (const json& cage :
         {json{{"read_only_git", true}}, json{{"read_only_git", true}, {"sealed", true}}}) {
        const std::string name = cage.contains("sealed") ? "sealed" : "caged";
        with.make(name, cage);
        CHECK(with.api().get("/v1/sessions/" + name).body["cage"]["read_only_git"] == true);
        CHECK(with.said(name, changing) == ".");
        CHECK(with.said(name, "echo \"$PINFOLD_READ_ONLY_GIT\"") == ".git/config .git/hooks");
        // At once, and in words that are known.
        CHECK_THAT(with.said(name, "(sh -c 'echo x >.git/hooks/x'; git config a.b c) 2>&1 | tr '\\n' ' '"),
                   ContainsSubstring("Read-only file system") &&
                       ContainsSubstring("could not write config file .git/config"));
        CHECK(with.said(name, mounting) == "tried");
        CHECK(with.obeyed() == before);
        CHECK_FALSE(fs::exists(with.project() / ".git/config.worktree"));

        // The twin: what an agent does with git all day.
        CHECK(
            with.said(
                name,
                "exec 2>&1; set -e; rm -f new second\n"
                "start=$(git rev-list --count HEAD); git checkout -q -b side; echo two >>file\n"
                "git stash -q; git stash pop -q; git commit -qam two; git checkout -q -; git merge -q side\n"
                "git branch -q -D side >/dev/null 2>&1; git clone -q up.git /tmp/c; cd /tmp/c\n"
                "git -c user.name=n -c user.email=e@example.com commit -q --allow-empty -m far\n"
                "git push -q origin HEAD; cd - >/dev/null; git fetch -q\n"
                "git cat-file -e $(git -C /tmp/c rev-parse HEAD); git status --short; rm -r /tmp/c\n"
                "echo $(($(git rev-list --count HEAD) - start))") == "1");
        CHECK(with.obeyed() == before);
    }
    // It stays over the session's restart and the agent's.
    REQUIRE(with.api().post("/v1/sessions/caged/restart").status == 204);
    CHECK(with.said("caged", changing) == ".");
    with.machine().kill_agent();
    REQUIRE(eventually([&] { return with.machine().run({"ls"}).status == 0; }));
    CHECK(with.said("caged", changing) == ".");
    CHECK(with.obeyed() == before);

    // Without it the same ways are ways.
    with.make("open", json::object());
    std::string all;
    for (const std::string& each : ways) all += each + " ";
    CHECK(with.said("open", changing) == all + ".");
    CHECK(with.obeyed() != before);
}

TEST_CASE("B35 run has read-only git as a session has it") {
    left_machine with;
    const auto before = with.obeyed();
    const auto tried = [&](words options) {
        options.insert(options.begin(), "run");
        for (const char* each : {"--", "git", "config", "core.pager", "touch ran"})
            options.emplace_back(each);
        return with.machine().run(std::move(options)).status;
    };
    CHECK(tried({"--caged", "--read-only-git"}) != 0);
    CHECK(with.obeyed() == before);
    CHECK(tried({"--caged"}) == 0);
    CHECK(with.obeyed() != before);
    CHECK(with.machine().run({"run", "--uncaged", "--read-only-git", "--", "true"}).status == 125);
    fs::remove_all(with.project() / ".git");
    const cli_result refused = with.machine().run({"run", "--caged", "--read-only-git", "--", "true"});
    CHECK(refused.status == 125);
    CHECK_THAT(refused.err, ContainsSubstring("has no .git"));
}

TEST_CASE("B39 when a session's program has ended no file that it left has a set-user-ID bit") {
    left_machine with;
    const auto bits = [&] {
        words names;
        for (const auto& each : fs::recursive_directory_iterator(with.project())) {
            struct stat seen{};
            REQUIRE(::lstat(each.path().c_str(), &seen) == 0);
            if (S_ISREG(seen.st_mode) && (seen.st_mode & 06000U) != 0)
                names.push_back(each.path().lexically_relative(with.project()));
        }
        std::ranges::sort(names);
        return names;
    };
    const auto mode_of = [&](const char* name) {
        struct stat seen{};
        REQUIRE(::lstat((with.project() / name).c_str(), &seen) == 0);
        return seen.st_mode & 07777U;
    };
    with.outside("cp /usr/bin/id old; cp /usr/bin/id touched; chmod 4755 old touched");
    for (const char* mode : {"caged", "sealed"}) {
        with.make(mode, {{"sealed", std::string_view(mode) == "sealed"}});
        CHECK(with.said(mode, "mkdir -p a/b closed; cp /usr/bin/id a/b/one; cp /usr/bin/id .git/objects/two\n"
                              "cp /usr/bin/id closed/three; chmod 4755 a/b/one; chmod 6711 .git/objects/two\n"
                              "chmod 2755 closed/three; chmod 4755 touched; ln -sf ../old a/link\n"
                              "find . -perm /6000 -type f | wc -l; chmod 0011 closed") == "5");
        CHECK(eventually([&] { return bits() == words{"old"}; }));
        CHECK(eventually([&] { return mode_of("closed") == 0011; }));
        CHECK(mode_of("a/b/one") == 0755); // the rest is as it was
        const auto told = [&] {
            const json report = with.api().get(fmt::format("/v1/sessions/{}/report", mode)).body;
            words names;
            for (const json& each : report["found"])
                if (each["state"] == "taken-off") names.push_back(each["path"]);
            std::ranges::sort(names);
            return names;
        };
        CHECK(eventually(
            [&] { return told() == words{".git/objects/two", "a/b/one", "closed/three", "touched"}; }));
        with.outside("chmod 4755 touched; chmod 755 closed; rm -rf a closed .git/objects/two");
    }
}

} // namespace pinfold::test
