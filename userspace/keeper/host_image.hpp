// The image `host`: what of the machine, beside its /usr, goes into a cage (host_list.hpp), and how it gets there.
#pragma once

#include <filesystem>
#include <string>

namespace pinfold {

// Names the state of the machine that the image depends on; changes when packages or accounts do. A dozen stat calls.
[[nodiscard]] std::string host_fingerprint(int machine_root);

// Throws with what to do where this machine's tree cannot be used: /usr missing, or /bin not merged into it.
void check_host(int machine_root, const std::filesystem::path& shown_as);

// Makes everything of the image but /usr in the empty directory `to`.
void build_host(int machine_root, int to);

} // namespace pinfold
