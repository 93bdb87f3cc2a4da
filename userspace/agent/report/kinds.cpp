#include "agent/report/kinds.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace pinfold::report {

namespace {

constexpr std::size_t most_shown = 50;

constexpr file_kind harness{"harness", "an agent that works here obeys it, or runs what it names"};
constexpr file_kind editor{"editor", "an editor that opens the project may run what it names"};
constexpr file_kind shell{"environment", "a shell or a tool may run it on entering the folder"};
constexpr file_kind build{"build", "building, testing or installing runs it"};
constexpr file_kind hooks{"hook-manager", "it says which hooks run at a commit"};
constexpr file_kind package{"package", "a package manager obeys it"};
constexpr file_kind service{"service", "another machine or a container runs what it names"};

struct rule {
    std::string_view pattern; // "x/": all below a folder of that name; "*.x": an ending; else a whole name
    const file_kind* kind;
};

constexpr std::array rules{
    rule{".claude/", &harness},
    rule{".mcp.json", &harness},
    rule{"CLAUDE.md", &harness},
    rule{"CLAUDE.local.md", &harness},
    rule{"AGENTS.md", &harness},
    rule{"AGENT.md", &harness},
    rule{"GEMINI.md", &harness},
    rule{".gemini/", &harness},
    rule{".codex/", &harness},
    rule{".pi/", &harness},
    rule{".cursor/", &harness},
    rule{".cursorrules", &harness},
    rule{".windsurfrules", &harness},
    rule{".opencode/", &harness},
    rule{"opencode.json", &harness},
    rule{"copilot-instructions.md", &harness},
    rule{".vscode/", &editor},
    rule{"*.code-workspace", &editor},
    rule{".idea/", &editor},
    rule{".zed/", &editor},
    rule{".fleet/", &editor},
    rule{".helix/", &editor},
    rule{".exrc", &editor},
    rule{".vimrc", &editor},
    rule{".nvimrc", &editor},
    rule{".nvim.lua", &editor},
    rule{".lvimrc", &editor},
    rule{".dir-locals.el", &editor},
    rule{".dir-locals-2.el", &editor},
    rule{"*.sublime-project", &editor},
    rule{".devcontainer/", &editor},
    rule{".devcontainer.json", &editor},
    rule{".envrc", &shell},
    rule{".env", &shell},
    rule{".autoenv", &shell},
    rule{".autoenv.zsh", &shell},
    rule{"mise.toml", &shell},
    rule{".mise.toml", &shell},
    rule{".tool-versions", &shell},
    rule{".nvmrc", &shell},
    rule{"flake.nix", &shell},
    rule{"shell.nix", &shell},
    rule{"default.nix", &shell},
    rule{"devenv.nix", &shell},
    rule{".bashrc", &shell},
    rule{".zshrc", &shell},
    rule{".profile", &shell},
    rule{".gdbinit", &shell},
    rule{".lldbinit", &shell},
    rule{".inputrc", &shell},
    rule{".pre-commit-config.yaml", &hooks},
    rule{".pre-commit-hooks.yaml", &hooks},
    rule{".husky/", &hooks},
    rule{"lefthook.yml", &hooks},
    rule{"lefthook.yaml", &hooks},
    rule{".lefthook.yml", &hooks},
    rule{".githooks/", &hooks},
    rule{".lintstagedrc", &hooks},
    rule{".overcommit.yml", &hooks},
    rule{"Makefile", &build},
    rule{"makefile", &build},
    rule{"GNUmakefile", &build},
    rule{"*.mk", &build},
    rule{"CMakeLists.txt", &build},
    rule{"*.cmake", &build},
    rule{"CMakePresets.json", &build},
    rule{"CMakeUserPresets.json", &build},
    rule{"meson.build", &build},
    rule{"configure", &build},
    rule{"justfile", &build},
    rule{"Justfile", &build},
    rule{".justfile", &build},
    rule{"Taskfile.yml", &build},
    rule{"Rakefile", &build},
    rule{"Gemfile", &build},
    rule{"*.gemspec", &build},
    rule{"build.rs", &build},
    rule{".cargo/", &build},
    rule{"Cargo.toml", &build},
    rule{"rust-toolchain.toml", &build},
    rule{"build.gradle", &build},
    rule{"build.gradle.kts", &build},
    rule{"settings.gradle", &build},
    rule{"settings.gradle.kts", &build},
    rule{"gradlew", &build},
    rule{"gradle-wrapper.properties", &build},
    rule{"pom.xml", &build},
    rule{"mvnw", &build},
    rule{".mvn/", &build},
    rule{"build.sbt", &build},
    rule{"binding.gyp", &build},
    rule{"BUILD", &build},
    rule{"BUILD.bazel", &build},
    rule{"WORKSPACE", &build},
    rule{".bazelrc", &build},
    rule{"setup.py", &build},
    rule{"setup.cfg", &build},
    rule{"pyproject.toml", &build},
    rule{"conftest.py", &build},
    rule{"noxfile.py", &build},
    rule{"tox.ini", &build},
    rule{"pytest.ini", &build},
    rule{"sitecustomize.py", &build},
    rule{"usercustomize.py", &build},
    rule{"*.pth", &build},
    rule{"gulpfile.js", &build},
    rule{"Gruntfile.js", &build},
    rule{"webpack.config.js", &build},
    rule{"vite.config.js", &build},
    rule{"vite.config.ts", &build},
    rule{"vitest.config.ts", &build},
    rule{"jest.config.js", &build},
    rule{"jest.config.ts", &build},
    rule{"babel.config.js", &build},
    rule{"rollup.config.js", &build},
    rule{".eslintrc.js", &build},
    rule{".eslintrc.cjs", &build},
    rule{"eslint.config.js", &build},
    rule{"eslint.config.mjs", &build},
    rule{".prettierrc.js", &build},
    rule{"package.json", &package},
    rule{".npmrc", &package},
    rule{".yarnrc", &package},
    rule{".yarnrc.yml", &package},
    rule{".pnpmfile.cjs", &package},
    rule{"pnpm-workspace.yaml", &package},
    rule{"composer.json", &package},
    rule{"deno.json", &package},
    rule{"bunfig.toml", &package},
    rule{"pip.conf", &package},
    rule{"requirements.txt", &package},
    rule{".gitmodules", &package},
    rule{"Dockerfile", &service},
    rule{"docker-compose.yml", &service},
    rule{"docker-compose.yaml", &service},
    rule{"compose.yaml", &service},
    rule{"compose.yml", &service},
    rule{"Vagrantfile", &service},
    rule{".gitlab-ci.yml", &service},
    rule{".github/workflows/", &service},
    rule{".github/actions/", &service},
};

bool matches(std::string_view pattern, std::string_view path, std::string_view name) noexcept {
    if (pattern.starts_with('*')) return name.ends_with(pattern.substr(1));
    if (!pattern.ends_with('/')) return name == pattern;
    const std::size_t at = path.find(pattern);
    return at != std::string_view::npos && (at == 0 || path[at - 1] == '/');
}

using nlohmann::json;

json parsed(std::string_view text) {
    return json::parse(text, nullptr, false, true);
}

void collect(const json& from, std::vector<std::string>& into, int depth) {
    if (depth > 16 || into.size() >= most_shown) return;
    if (from.is_array()) {
        for (const json& each : from) collect(each, into, depth + 1);
        return;
    }
    if (!from.is_object()) return;
    for (const auto& [key, value] : from.items()) {
        const bool is_command = key == "command" || key == "runOn" || key == "apiKeyHelper" ||
                                key == "initializeCommand" || key == "postCreateCommand";
        if (is_command && into.size() < most_shown)
            into.push_back(key + ": " +
                           (value.is_string() ? value.get<std::string>()
                                              : value.dump(-1, ' ', false, json::error_handler_t::replace)));
        else
            collect(value, into, depth + 1);
    }
}

} // namespace

const file_kind* kind_of(std::string_view path) noexcept {
    const std::string_view name = path.substr(path.rfind('/') + 1);
    for (const rule& each : rules)
        if (matches(each.pattern, path, name)) return each.kind;
    return nullptr;
}

std::vector<std::string> commands_in(std::string_view text) {
    std::vector<std::string> found;
    collect(parsed(text), found, 0);
    return found;
}

std::vector<std::string> scripts_in(std::string_view text) {
    std::vector<std::string> found;
    const json all = parsed(text);
    if (!all.is_object() || !all.contains("scripts") || !all["scripts"].is_object()) return found;
    for (const auto& [name, command] : all["scripts"].items()) {
        if (found.size() == most_shown) break;
        found.push_back(name + ": " +
                        (command.is_string() ? command.get<std::string>()
                                             : command.dump(-1, ' ', false, json::error_handler_t::replace)));
    }
    return found;
}

bool runs_by_itself(std::string_view script) noexcept {
    constexpr std::array names{"preinstall",       "install",         "postinstall",       "prepare",
                               "preprepare",       "postprepare",     "prepublish",        "dependencies",
                               "post-install-cmd", "post-update-cmd", "post-autoload-dump"};
    return std::ranges::find(names, script.substr(0, script.find(':'))) != names.end();
}

} // namespace pinfold::report
