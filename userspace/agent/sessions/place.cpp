#include "agent/sessions/place.hpp"

#include "base/file.hpp"

#include <algorithm>
#include <unistd.h>

namespace pinfold {

namespace fs = std::filesystem;

run_mode mode_of(const session_options& options) noexcept {
    if (!options.cage) return run_mode::uncaged;
    return options.cage->sealed ? run_mode::sealed : run_mode::caged;
}

fs::path uploads_of(const session_world::settings& with, const std::string& session) {
    return with.state / "uploads" / session;
}

fs::path outbox_of(const session_world::settings& with, const std::string& session) {
    return with.home / "shrooms-outbox" / session;
}

fs::path find_harness(const session_world::settings& with, const std::string& harness) {
    const std::string& wanted = harness == "pi" ? with.pi : with.claude;
    std::error_code error;
    if (wanted.find('/') != std::string::npos) {
        fs::path real = fs::canonical(wanted, error);
        if (!error && ::access(real.c_str(), X_OK) == 0) return real;
        throw session_refusal(
            409, fmt::format("there is no program {} on this machine; --{} names another", wanted, harness));
    }
    const auto path = with.environment.find("PATH");
    std::string_view folders = path == with.environment.end() ? "/usr/local/bin:/usr/bin:/bin"
                                                              : std::string_view(path->second);
    while (!wanted.empty() && !folders.empty()) {
        const std::string_view folder = folders.substr(0, folders.find(':'));
        folders.remove_prefix(std::min(folders.size(), folder.size() + 1));
        if (folder.empty() || folder.front() != '/') continue;
        fs::path real = fs::canonical(fs::path(folder) / wanted, error);
        if (!error && fs::is_regular_file(real, error) && ::access(real.c_str(), X_OK) == 0) return real;
    }
    throw session_refusal(
        409,
        fmt::format("this machine has no '{}' in its agent's PATH; install it, or start the agent with --{}",
                    wanted, harness));
}

void refuse_sealed_directory(const session_world::settings& with, const fs::path& directory, int status) {
    std::error_code error;
    const fs::path real = fs::weakly_canonical(directory, error);
    const fs::path home = fs::weakly_canonical(with.home, error);
    const auto [end, ignored] = std::ranges::mismatch(real, home);
    if (end == real.end())
        throw session_refusal(status,
                              fmt::format("a sealed session works in a project of its own, not in {}: that "
                                          "is your home or holds it",
                                          directory.native()));
    for (const char* each : {".ssh", ".gnupg", ".aws", ".config/gh", ".claude"}) {
        if (fs::symlink_status(real / each, error).type() == fs::file_type::not_found) continue;
        throw session_refusal(status,
                              fmt::format("a sealed session works in a project of its own, not in {}: it "
                                          "holds {}",
                                          directory.native(), each));
    }
}

bool has_sealed_token(const session_world::settings& with) {
    try {
        return read_file(with.sealed_token).find_first_not_of(" \t\r\n") != std::string::npos;
    } catch (const std::system_error&) {
        return false;
    }
}

void refuse_without_token(const session_world::settings& with, int status) {
    if (has_sealed_token(with)) return;
    throw session_refusal(
        status, fmt::format("a sealed session runs on a token of its own, and this machine has none: "
                            "run 'claude setup-token', then 'install -m 600 /dev/stdin {}' and paste "
                            "what it printed",
                            with.sealed_token.native()));
}

} // namespace pinfold
