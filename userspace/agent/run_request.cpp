#include "agent/run_request.hpp"

#include "agent/git_folder.hpp"
#include "spec/validate.hpp"

#include <array>
#include <pwd.h>
#include <random>
#include <unistd.h>

namespace pinfold {

namespace {

constexpr const char* cage_path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

constexpr std::array birds{"avocet", "bittern", "curlew",  "dunlin", "egret",  "finch",    "grebe",  "heron",
                           "ibis",   "jay",     "kestrel", "lark",   "martin", "nuthatch", "osprey", "plover",
                           "quail",  "robin",   "siskin",  "tern",   "veery",  "wren"};

void put_owner(std::map<std::string, std::string>& into) {
    const passwd* owner = ::getpwuid(::getuid());
    into.try_emplace("PATH", cage_path);
    into.try_emplace("HOME", owner != nullptr ? owner->pw_dir : "/");
    if (owner == nullptr) return;
    into.try_emplace("USER", owner->pw_name);
    into.try_emplace("LOGNAME", owner->pw_name);
    into.try_emplace("SHELL", owner->pw_shell);
}

void refuse(const std::optional<spec_problem>& problem) {
    if (problem) throw bad_request(problem->where + ": " + problem->what);
}

} // namespace

const char* to_string(run_mode mode) noexcept {
    switch (mode) {
    case run_mode::sealed: return "sealed";
    case run_mode::caged: return "caged";
    case run_mode::uncaged: return "uncaged";
    }
    return "?";
}

std::vector<std::string> make_environment(const command_request& from, run_mode mode,
                                          const std::string& name) {
    std::map<std::string, std::string> variables = from.environment;
    if (mode == run_mode::uncaged) {
        put_owner(variables);
    } else {
        variables.try_emplace("PATH", cage_path);
        variables.try_emplace("HOME", "/root");
    }
    if (from.terminal) variables.try_emplace("TERM", "xterm-256color");
    variables.insert_or_assign("PINFOLD_CAGE", name);
    variables.insert_or_assign("PINFOLD_MODE", to_string(mode));
    std::vector<std::string> list;
    list.reserve(variables.size());
    for (const auto& [key, value] : variables) list.push_back(fmt::format("{}={}", key, value));
    return list;
}

std::filesystem::path canonical_directory(const std::filesystem::path& path) {
    if (!path.is_absolute())
        throw bad_request(fmt::format("dir: must be an absolute path, not '{}'", path.native()));
    std::error_code error;
    std::filesystem::path real = std::filesystem::canonical(path, error);
    if (error) throw bad_request(fmt::format("dir: cannot use {}: {}", path.native(), error.message()));
    if (!std::filesystem::is_directory(real, error))
        throw bad_request(fmt::format("dir: {} is not a directory", path.native()));
    return real;
}

command_spec make_command(const command_request& from, run_mode mode, const std::string& name,
                          const std::filesystem::path& directory) {
    command_spec command{.argv = from.argv,
                         .environment = make_environment(from, mode, name),
                         .directory = from.directory.empty() ? directory : from.directory,
                         .terminal = from.terminal};
    refuse(find_problem(command));
    return command;
}

cage_spec make_spec(const run_request& from, const resolver_settings& resolvers) {
    cage_spec spec;
    spec.name = from.name;
    spec.mode = from.mode == run_mode::caged ? cage_mode::caged : cage_mode::sealed;
    spec.project = canonical_directory(from.directory);
    spec.image = from.image;
    spec.limits = from.limits;
    spec.command = make_command(from.command, from.mode, from.name, spec.project);
    spec.binds = from.binds;
    if (from.read_only_git) {
        for (bind_spec& each : read_only_git(spec.project)) spec.binds.push_back(std::move(each));
        spec.command.environment.emplace_back(read_only_git_variable);
    }
    spec.keep_files = from.keep_files;
    if (spec.mode == cage_mode::caged) spec.search_domains = resolvers.search;
    refuse(find_problem(spec));
    return spec;
}

std::string make_up_name() {
    std::random_device random;
    return fmt::format("{}-{:04x}", birds[random() % birds.size()], random() & 0xffffU);
}

} // namespace pinfold
