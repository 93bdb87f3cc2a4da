// What a cage leaves in its project that would run outside, and that no looking at it runs it (B35, B39).
#include "agent/report/git_config.hpp"
#include "agent/report/kinds.hpp"
#include "agent/report/scan.hpp"
#include "agent/report/set_id_bits.hpp"
#include "session_fixture.hpp"
#include "support/catch.hpp"
#include "support/fake_keeper.hpp"

#include <algorithm>
#include <fstream>
#include <sys/stat.h>

namespace pinfold {

namespace {

namespace fs = std::filesystem;

struct project {
    void put(const std::string& name, const std::string& text) const {
        fs::create_directories((path() / name).parent_path());
        std::ofstream(path() / name) << text;
    }
    [[nodiscard]] report::picture look(report::limits within = {}) const {
        report::scan at(path(), within);
        while (at.step()) {
        }
        return at.take();
    }
    [[nodiscard]] const fs::path& path() const { return scratch.path(); }

    test::scratch_directory scratch;
};

// "WHAT|WHY", or nothing where the picture has no such thing.
std::string told(const report::picture& of, const std::string& kind, const std::string& path) {
    std::string all;
    for (const report::item& each : of.items)
        if (each.kind == kind && each.path == path) all += each.what + "|";
    return all;
}
bool has(const report::picture& of, const std::string& kind, const std::string& path) {
    return !told(of, kind, path).empty();
}

} // namespace

TEST_CASE("B35: each setting by which git runs a program is named, in whatever way it is written") {
    const auto dangers = [](std::string_view text) {
        std::string all;
        for (const report::git_setting& each : report::read_git_config(text))
            if (report::git_danger(each) != nullptr) all += each.key + "=" + each.value + ";";
        return all;
    };
    CHECK(dangers("[core]\n\thooksPath = /tmp/x\n") == "core.hookspath=/tmp/x;");
    CHECK(dangers("[CORE] FSMONITOR = ./run\n") == "core.fsmonitor=./run;");
    CHECK(dangers("[core]\n fsmonitor = true\n").empty());
    CHECK(dangers("[filter \"Any \\\"Name\"]\n clean = \"a\" b # no\n") == "filter.Any \"Name.clean=a b;");
    CHECK(dangers("[diff.c]\n textconv=x\\\ny\n") == "diff.c.textconv=xy;");
    CHECK(dangers("[alias]\n st = status\n go = !sh -c x\n") == "alias.go=!sh -c x;");
    CHECK(dangers("[includeIf \"gitdir:/\"]\n path = ../x\n") == "includeif.gitdir:/.path=../x;");
    CHECK(dangers("[submodule \"a\"]\n url = ext::sh\n update = !x\n") ==
          "submodule.a.url=ext::sh;submodule.a.update=!x;");
    CHECK(dangers("[user]\n name = a\n[core]\n bare = false\n").empty());
    CHECK(dangers("[core\n hooksPath = x").empty());
    CHECK(report::named_drivers("# *.a filter=x\n*.c filter=x\n*.d text\n*.e -diff\n*.f diff=y\n").size() ==
          2);
}

TEST_CASE("B35: a report names what would run outside, and runs none of it") {
    const project at;
    at.put(".git/HEAD", "ref: refs/heads/main\n");
    at.put(".git/config",
           "[core]\n\tfsmonitor = touch ran\n\tsshCommand = touch ran\n[filter \"x\"]\n\tclean = touch ran\n"
           "[include]\n\tpath = ../shared.inc\n\tpath = /etc/hostname\n");
    at.put("shared.inc", "[diff]\n\texternal = touch ran\n");
    at.put(".git/hooks/post-checkout", "#!/bin/sh\ntouch ran\n");
    at.put(".git/hooks/pre-push.sample", "#!/bin/sh\n");
    at.put(".git/modules/sub/HEAD", "x");
    at.put(".git/modules/sub/objects/x", "");
    at.put(".git/modules/sub/hooks/post-merge", "x");
    at.put(".git/commondir", "../elsewhere\n");
    at.put(".git/worktrees/side/commondir", "../..\n");
    at.put(".git/worktrees/side/HEAD", "x");
    at.put(".git/rebase-merge/git-rebase-todo", "pick 1 one\nexec touch ran\n");
    at.put("vendor/led/HEAD", "x");
    at.put("vendor/led/commondir", "../settings");
    at.put("vendor/bare/HEAD", "x");
    at.put("vendor/bare/objects/x", "");
    at.put("vendor/bare/config", "[core]\n\tpager = touch ran\n");
    at.put(".gitattributes", "*.c filter=x\n");
    at.put(".gitmodules", "[submodule \"s\"]\n\turl = ext::touch ran\n");
    at.put(".envrc", "touch ran\n");
    at.put(".vscode/tasks.json",
           "{\"tasks\": [{\"command\": \"touch ran\", // x\n \"runOptions\": {\"runOn\": \"folderOpen\"}}]}");
    at.put(".claude/settings.json",
           R"({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "touch ran"}]}]}})");
    at.put(".mcp.json", R"({"mcpServers": {"x": {"command": "touch"}}})");
    at.put("package.json", R"({"scripts": {"postinstall": "touch ran", "test": "true"}})");
    at.put("docs/readme.txt", "nothing");
    const report::picture seen = at.look();
    CHECK(seen.is_complete);
    CHECK(told(seen, "git-setting", ".git/config") ==
          "core.fsmonitor = touch ran|core.sshcommand = touch ran|filter.x.clean = touch ran|"
          "include.path = ../shared.inc|include.path = /etc/hostname|");
    // What leads git around settings that a cage cannot write, too.
    CHECK(told(seen, "git-setting", "shared.inc") == "diff.external = touch ran|");
    CHECK(told(seen, "git-folder", ".git/commondir") == "commondir = ../elsewhere|");
    CHECK(told(seen, "git-folder", "vendor/led/commondir") == "commondir = ../settings|");
    CHECK_FALSE(has(seen, "git-folder", ".git/worktrees/side/commondir"));
    CHECK(has(seen, "git-hook", ".git/hooks/post-checkout"));
    CHECK_FALSE(has(seen, "git-hook", ".git/hooks/pre-push.sample"));
    CHECK(has(seen, "git-hook", ".git/modules/sub/hooks/post-merge"));
    CHECK(told(seen, "git-setting", "vendor/bare/config") == "core.pager = touch ran|");
    CHECK(has(seen, "git-attribute", ".gitattributes"));
    CHECK(told(seen, "git-setting", ".gitmodules") == "submodule.s.url = ext::touch ran|");
    CHECK(has(seen, "environment", ".envrc"));
    CHECK(has(seen, "editor", ".vscode/tasks.json"));
    CHECK(has(seen, "harness", ".claude/settings.json"));
    CHECK(has(seen, "harness", ".mcp.json"));
    CHECK(told(seen, "script", "package.json") == "postinstall: touch ran|test: true|");
    CHECK_FALSE(fs::exists(at.path() / "ran"));
    std::size_t commands = 0;
    for (const report::item& each : seen.items)
        for (const std::string& detail : each.details) commands += detail == "command: touch ran" ? 1 : 0;
    CHECK(commands == 2);
    const auto todo = std::ranges::find(seen.items, "git-todo", &report::item::kind);
    REQUIRE(todo != seen.items.end());
    CHECK(todo->details == std::vector<std::string>{"exec touch ran"});
    for (const report::item& each : seen.items) CHECK(each.path != "docs/readme.txt");
}

TEST_CASE(
    "B39: set-user-ID programs, devices' kin and links that lead out are named, and followed by nobody") {
    const project at;
    const project outside;
    outside.put("secret/.envrc", "x");
    at.put("plain", "x");
    at.put("tool", "x");
    REQUIRE(::chmod((at.path() / "tool").c_str(), 04755) == 0);
    fs::create_symlink(outside.path(), at.path() / "away");
    fs::create_symlink("../../../../etc/passwd", at.path() / "up");
    fs::create_symlink("none", at.path() / "nothing");
    fs::create_symlink("loop", at.path() / "loop");
    fs::create_symlink("plain", at.path() / "inside");
    fs::create_symlink(at.path() / "plain", at.path() / "absolute");
    fs::create_symlink("plain", at.path() / ".envrc");
    REQUIRE(::mkfifo((at.path() / "Makefile").c_str(), 0600) ==
            0); // a build file that would hold who reads it
    const report::picture seen = at.look();
    CHECK(told(seen, "setuid", "tool") == "mode 4755|");
    CHECK(has(seen, "program", "tool"));
    CHECK_FALSE(has(seen, "setuid", "plain"));
    CHECK_FALSE(has(seen, "program", "plain"));
    CHECK(told(seen, "link", "away").starts_with("leads out to "));
    CHECK(told(seen, "link", "up").starts_with("leads out to "));
    CHECK(told(seen, "link", "nothing") == "leads to nothing: none|");
    CHECK(told(seen, "link", "loop").starts_with("leads to nothing"));
    CHECK_FALSE(has(seen, "link", "inside"));
    CHECK_FALSE(has(seen, "link", "absolute"));
    CHECK(told(seen, "link", ".envrc") == "leads to plain|");
    for (const report::item& each : seen.items) CHECK(each.path.find("secret") == std::string::npos);
}

TEST_CASE("B39: set-user-ID bits are taken off what a session left, and off nothing else") {
    const project at;
    const project outside;
    const auto mode = [](const fs::path& path) {
        struct stat seen{};
        REQUIRE(::lstat(path.c_str(), &seen) == 0);
        return seen.st_mode & 07777U;
    };
    const auto mark = [](const fs::path& path, mode_t to) { REQUIRE(::chmod(path.c_str(), to) == 0); };
    outside.put("tool", "x");
    mark(outside.path() / "tool", 04755);
    for (const char* name : {"old", "written", "renamed", "plain"}) at.put(name, "x");
    for (const char* name : {"old", "written", "renamed"}) mark(at.path() / name, 04755);
    const report::picture before = at.look();
    at.put("written", "another program");
    mark(at.path() / "written", 04755);
    fs::rename(at.path() / "renamed", at.path() / "named anew");
    fs::create_symlink(outside.path() / "tool", at.path() / "away");
    fs::create_directory_symlink(outside.path(), at.path() / "folder away");
    at.put("deep/er/new", "x");
    mark(at.path() / "deep/er/new", 06711);
    at.put(".git/HEAD", "x");
    at.put(".git/objects/hidden", "x"); // the report does not look there
    mark(at.path() / ".git/objects/hidden", 02755);
    at.put("unreadable", "x");
    mark(at.path() / "unreadable", 04011);
    mark(at.path() / "deep", 02755); // of a folder the bit gives its files a group, and nobody a right
    at.put("foreign", "x");
    if (::geteuid() == 0) {
        REQUIRE(::chown((at.path() / "foreign").c_str(), 65534, 65534) == 0);
        mark(at.path() / "foreign", 04755);
    }
    const auto clear = [&](const report::picture* known, report::set_id_limits within = {}) {
        report::set_id_bits bits(at.path(), known, within);
        while (bits.step()) {
        }
        std::string all;
        for (const report::set_id_file& each : bits.take())
            all += each.path + " " + each.mode + (each.trouble.empty() ? "" : " " + each.trouble) + ";";
        return std::pair(all, bits.is_complete());
    };
    const std::string foreign = ::geteuid() == 0 ? "foreign mode 4755 it belongs to uid 65534;" : "";
    CHECK(clear(&before) == std::pair(".git/objects/hidden mode 2755;deep/er/new mode 6711;" + foreign +
                                          "named anew mode 4755;unreadable mode 4011;written mode 4755;",
                                      true));
    CHECK(mode(at.path() / "deep/er/new") == 0711);
    CHECK(mode(at.path() / ".git/objects/hidden") == 0755);
    CHECK(mode(at.path() / "unreadable") == 0011);
    CHECK(mode(at.path() / "written") == 0755);
    CHECK(mode(at.path() / "deep") == 02755);
    CHECK(mode(outside.path() / "tool") == 04755);
    CHECK(mode(at.path() / "old") == 04755); // it had it before, and is the same file
    CHECK(clear(&before) == std::pair(foreign, true));
    CHECK(clear(nullptr) == std::pair(foreign + "old mode 4755;", true)); // nobody looked: none is known
    CHECK(mode(at.path() / "old") == 0755);
    CHECK_FALSE(clear(nullptr, {.entries = 3}).second);
    CHECK_FALSE(clear(nullptr, {.depth = 2}).second);
}

TEST_CASE("B39: the agent takes the bits off at the end of a session's program, and its report says so") {
    test::session_fixture with;
    test::fake_keeper keeper(with.agent.keeper_socket());
    REQUIRE(test::eventually([&] { return with.get("/v1/harnesses").body["cage"]["available"] == true; }));
    std::ofstream(with.project() / "old") << "x";
    std::ofstream(with.project() / "new") << "x";
    REQUIRE(::chmod((with.project() / "old").c_str(), 04755) == 0);
    REQUIRE(
        with.create({{"harness", "command"}, {"command", {"/bin/sh", "-s"}}, {"cage", test::json::object()}})
            .status == 201);
    test::event_reader events = with.events();
    const std::string script = fmt::format("chmod 4755 {}/new; stat -c %a {}/new", with.project().native(),
                                           with.project().native());
    REQUIRE(with.send(script).status == 202);
    CHECK(events.wait_for_claude("assistant")["data"]["message"]["content"][0]["text"] == "4755");
    const test::json told = events.wait_for("report");
    const auto is_it = [](const test::json& each) {
        return each["state"] == "taken-off" && each["kind"] == "setuid" && each["path"] == "new" &&
               each["what"].get<std::string>().starts_with("mode 4755, taken off at ");
    };
    CAPTURE(told.dump());
    CHECK(std::ranges::any_of(told["data"]["found"], is_it));
    struct stat seen{};
    REQUIRE(::stat((with.project() / "new").c_str(), &seen) == 0);
    CHECK((seen.st_mode & 07777U) == 0755);
    REQUIRE(::stat((with.project() / "old").c_str(), &seen) == 0);
    CHECK((seen.st_mode & 07777U) == 04755);
    const test::json report = with.get("/v1/sessions/heron/report").body;
    CAPTURE(report.dump());
    CHECK(std::ranges::any_of(report["found"], is_it));

    // A session that is deleted while its program runs leaves none either.
    std::ofstream(with.project() / "last") << "x";
    REQUIRE(with.send(fmt::format("chmod 4755 {}/last; sleep 1000", with.project().native())).status == 202);
    const auto has_bit = [&] {
        return ::stat((with.project() / "last").c_str(), &seen) == 0 && (seen.st_mode & S_ISUID) != 0;
    };
    REQUIRE(test::eventually(has_bit));
    REQUIRE(with.remove("/v1/sessions/heron").status == 204);
    CHECK(test::eventually([&] { return !has_bit(); }));
    REQUIRE(::stat((with.project() / "old").c_str(), &seen) == 0);
    CHECK((seen.st_mode & 07777U) == 04755);
}

TEST_CASE("a project that is too large, too deep or of strange names is looked at within limits, and the "
          "report says so") {
    const project at;
    for (int i = 0; i < 30; ++i) at.put(fmt::format("f{}", i), "x");
    at.put("a/b/c/.envrc", "x");
    CHECK(at.look().is_complete);
    CHECK_FALSE(at.look({.entries = 10}).is_complete);
    CHECK_FALSE(at.look({.depth = 2}).is_complete);
    CHECK(has(at.look(), "environment", "a/b/c/.envrc"));
    at.put("x\n\x1b[31m/.envrc", "x");
    CHECK(has(at.look(), "environment", "x\\x0a\\x1b[31m/.envrc"));
    at.put("Makefile", "");
    fs::resize_file(at.path() / "Makefile", std::uintmax_t{10} << 30);
    CHECK(has(at.look(), "build", "Makefile"));
}

} // namespace pinfold
