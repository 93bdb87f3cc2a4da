// A project's git folder whose settings and hooks its cage may read and not change: --read-only-git. What runs git outside
// runs what they name.
#pragma once

#include "spec/cage_spec.hpp"

#include <filesystem>
#include <vector>

namespace pinfold {

// The folder itself, so that it cannot be moved away, and over it what must stay as it is. Throws bad_request where the
// project has no `.git` of its own, or one of which this cannot be promised: a link, a file, settings that are elsewhere.
[[nodiscard]] std::vector<bind_spec> read_only_git(const std::filesystem::path& project);

// Makes, empty, what git would read and what is not there: a cage that makes it itself could write it. Throws as above.
void complete_git_folder(const std::filesystem::path& project);

// What a cage with it finds in its environment, and its value.
inline constexpr const char* read_only_git_variable = "PINFOLD_READ_ONLY_GIT=.git/config .git/hooks";

} // namespace pinfold
