// Where agent and CLI expect things when nothing else is said: both must come to the same answer.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <pwd.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace pinfold {

inline constexpr const char* default_keeper_socket = "/run/pinfold/keeper.sock";

// The variable, where it is an absolute path and this process is that user's: root's own says nothing of another owner.
[[nodiscard]] inline std::filesystem::path own_directory(const char* variable, uid_t owner) {
    const char* value = owner == ::geteuid() ? std::getenv(variable) : nullptr;
    return value != nullptr && value[0] == '/' ? std::filesystem::path(value) : std::filesystem::path();
}

// $XDG_RUNTIME_DIR/pinfold/api.sock, else /run/user/UID/pinfold/api.sock, else /tmp/pinfold-UID/api.sock.
[[nodiscard]] inline std::filesystem::path default_api_socket(uid_t owner) {
    if (auto runtime = own_directory("XDG_RUNTIME_DIR", owner); !runtime.empty())
        return runtime / "pinfold/api.sock";
    const std::string user = "/run/user/" + std::to_string(owner);
    struct stat found{};
    if (::stat(user.c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == owner)
        return std::filesystem::path(user) / "pinfold/api.sock";
    return "/tmp/pinfold-" + std::to_string(owner) + "/api.sock";
}

// $XDG_STATE_HOME/pinfold, else ~/.local/state/pinfold.
[[nodiscard]] inline std::filesystem::path default_state_directory(uid_t owner) {
    if (auto state = own_directory("XDG_STATE_HOME", owner); !state.empty()) return state / "pinfold";
    const passwd* entry = ::getpwuid(owner);
    return std::filesystem::path(entry != nullptr ? entry->pw_dir : "/nonexistent") / ".local/state/pinfold";
}

} // namespace pinfold
