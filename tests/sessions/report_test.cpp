// What a cage leaves in its project that would run outside, and that no looking at it runs it (B35, B39).
#include "agent/report/git_config.hpp"
#include "agent/report/kinds.hpp"
#include "agent/report/scan.hpp"
#include "support/agent_fixture.hpp"
#include "support/catch.hpp"

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
    at.put(
        ".git/config",
        "[core]\n\tfsmonitor = touch ran\n\tsshCommand = touch ran\n[filter \"x\"]\n\tclean = touch ran\n");
    at.put(".git/hooks/post-checkout", "#!/bin/sh\ntouch ran\n");
    at.put(".git/hooks/pre-push.sample", "#!/bin/sh\n");
    at.put(".git/modules/sub/HEAD", "x");
    at.put(".git/modules/sub/objects/x", "");
    at.put(".git/modules/sub/hooks/post-merge", "x");
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
          "core.fsmonitor = touch ran|core.sshcommand = touch ran|filter.x.clean = touch ran|");
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
