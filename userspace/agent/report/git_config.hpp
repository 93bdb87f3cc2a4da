// What of git's configuration starts a program, or leads git elsewhere, when somebody runs git there. Text only: git
// itself is never asked, since asking it runs what is set.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pinfold::report {

struct git_setting {
    std::string key; // "section.subsection.name": section and name in lower case
    std::string value;
};

// As git reads it: sections, subsections, quotes, continued lines, comments. What git would call an error ends it.
[[nodiscard]] std::vector<git_setting> read_git_config(std::string_view text);
// What it does; null = nothing that runs or leads away.
[[nodiscard]] const char* git_danger(const git_setting& what);

// Lines of .gitattributes that name a driver: "*.c filter=x".
[[nodiscard]] std::vector<std::string> named_drivers(std::string_view attributes);

} // namespace pinfold::report
