#include "spec/validate.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace pinfold {

namespace {

constexpr std::size_t most_arguments = 4096;
constexpr std::size_t longest_path = 4095; // PATH_MAX without its terminator
constexpr std::uint64_t least_memory = std::uint64_t{16} << 20;
constexpr std::uint32_t most_cpu_percent = 100 * 8192;
constexpr std::uint32_t least_processes = 4;      // pid 1, the program and two to spare
constexpr std::uint32_t most_processes = 4194304; // the kernel's PID_MAX_LIMIT
constexpr std::size_t most_binds = 64;
constexpr std::size_t most_search_domains = 6; // what resolv.conf(5) honours

bool has_nul(std::string_view text) noexcept {
    return text.find('\0') != std::string_view::npos;
}

// Absolute and already normal: no "..", no ".", no "//". What the caller names must be what is opened.
bool is_canonical(const std::filesystem::path& path) {
    const std::string& text = path.native();
    if (text.empty() || text.front() != '/' || text.size() > longest_path || has_nul(text)) return false;
    // As text: two paths that differ in nothing but "//" compare equal.
    return text == "/" || (text.back() != '/' && path.lexically_normal().native() == text);
}

bool is_domain(std::string_view text) noexcept {
    if (text.empty() || text.size() > 253) return false;
    return std::ranges::all_of(text, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
               c == '.' || c == '_';
    });
}

bool is_assignment(std::string_view text) noexcept {
    const std::size_t equals = text.find('=');
    return equals != std::string_view::npos && equals > 0 && !has_nul(text);
}

// Where a bind would hide what the cage is made of.
bool is_reserved_target(const std::filesystem::path& target) {
    for (const char* taken : {"/", "/proc", "/sys", "/dev", "/usr", "/etc", "/run", "/tmp", "/var", "/bin",
                              "/sbin", "/lib", "/lib64"}) {
        if (target == taken) return true;
    }
    const std::string& text = target.native();
    return text.starts_with("/proc/") || text.starts_with("/sys/") || text.starts_with("/dev/");
}

std::optional<spec_problem> find_problem(const bind_spec& bind, std::size_t index) {
    const std::string where = fmt::format("binds[{}]", index);
    if (!is_canonical(bind.source))
        return spec_problem{where + ".source", "must be an absolute path without '..' or '//'"};
    if (!is_canonical(bind.target))
        return spec_problem{where + ".target", "must be an absolute path without '..' or '//'"};
    if (is_reserved_target(bind.target))
        return spec_problem{where + ".target",
                            fmt::format("{} belongs to the cage itself", bind.target.native())};
    return std::nullopt;
}

} // namespace

bool is_name(std::string_view text) noexcept {
    const auto lower_or_digit = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
    if (text.empty() || text.size() > 64 || !lower_or_digit(text.front())) return false;
    return std::ranges::all_of(text,
                               [&](char c) { return lower_or_digit(c) || c == '.' || c == '_' || c == '-'; });
}

std::optional<spec_problem> find_problem(const limits_spec& limits) {
    if (limits.memory_bytes < least_memory) return spec_problem{"limits.memory", "must be at least 16 MiB"};
    if (limits.cpu_percent < 1 || limits.cpu_percent > most_cpu_percent)
        return spec_problem{"limits.cpus", "must be between 0.01 and 8192"};
    if (limits.processes < least_processes || limits.processes > most_processes)
        return spec_problem{"limits.pids", "must be between 4 and 4194304"};
    return std::nullopt;
}

std::optional<spec_problem> find_problem(const command_spec& command) {
    if (command.argv.empty() || command.argv.front().empty())
        return spec_problem{"argv", "must name a program"};
    if (command.argv.size() > most_arguments || command.environment.size() > most_arguments)
        return spec_problem{"argv", "must have at most 4096 entries"};
    if (std::ranges::any_of(command.argv, has_nul)) return spec_problem{"argv", "must not hold a NUL byte"};
    for (const std::string& assignment : command.environment) {
        if (!is_assignment(assignment))
            return spec_problem{"env", "each entry must be NAME=value without a NUL byte"};
    }
    if (!is_canonical(command.directory))
        return spec_problem{"directory", "must be an absolute path without '..' or '//'"};
    return std::nullopt;
}

std::optional<spec_problem> find_problem(const cage_spec& spec) {
    if (!is_name(spec.name))
        return spec_problem{
            "name", "must be 1 to 64 of a-z, 0-9, '.', '_' and '-', and begin with a letter or a digit"};
    if (!is_name(spec.image)) return spec_problem{"image", "must be the name of an image, like 'host'"};
    if (!spec.project.empty()) {
        if (!is_canonical(spec.project))
            return spec_problem{"dir", "must be an absolute path without '..' or '//'"};
        if (is_reserved_target(spec.project))
            return spec_problem{
                "dir", fmt::format("cannot be {}: that belongs to the cage itself", spec.project.native())};
    }
    if (auto problem = find_problem(spec.limits)) return problem;
    if (auto problem = find_problem(spec.command)) return problem;
    if (spec.binds.size() > most_binds) return spec_problem{"binds", "must be at most 64"};
    for (std::size_t i = 0; i < spec.binds.size(); ++i) {
        if (auto problem = find_problem(spec.binds[i], i)) return problem;
    }
    if (spec.mode == cage_mode::sealed && !spec.search_domains.empty())
        return spec_problem{"search_domains", "must be empty: a sealed cage resolves no local names"};
    if (spec.search_domains.size() > most_search_domains ||
        !std::ranges::all_of(spec.search_domains, is_domain))
        return spec_problem{"search_domains", "must be at most 6 domain names"};
    return std::nullopt;
}

} // namespace pinfold
