// Which files of a project are run, or obeyed, by a tool that somebody starts there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pinfold::report {

struct file_kind {
    const char* kind; // as the API says it
    const char* why;
};

// By its path below the project; null = nothing that is known.
[[nodiscard]] const file_kind* kind_of(std::string_view path) noexcept;

// What of a JSON file is worth showing: the commands in a harness's or an editor's settings, comments allowed.
[[nodiscard]] std::vector<std::string> commands_in(std::string_view json);
// "name: command" of each of package.json's (or composer.json's) scripts.
[[nodiscard]] std::vector<std::string> scripts_in(std::string_view json);
// Does npm run it by itself, without being asked for this script?
[[nodiscard]] bool runs_by_itself(std::string_view script) noexcept;

} // namespace pinfold::report
