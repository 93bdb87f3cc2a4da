// The folder at /shared of the caged sessions that have one: each set of meshes has its own, so that a session limited to
// some shares nothing with those on others (seed 003, ADR-057).
#pragma once

#include <filesystem>
#include <span>
#include <string>

namespace pinfold {

// shrooms-shared, or shrooms-shared-LABELS-HASH where the session is limited. The order of the labels does not matter.
[[nodiscard]] std::string shared_folder_name(std::span<const std::string> meshes);

// Made where it is not there. Throws where something else than a directory has its name: a link would lead elsewhere.
[[nodiscard]] std::filesystem::path make_shared_folder(const std::filesystem::path& state,
                                                       std::span<const std::string> meshes);

} // namespace pinfold
