// Copies a part of the machine's tree into an image: regular files, directories and some links, never anything else.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace pinfold {

// Whether an entry may go into the image, by its path there ("/etc/apt/sources.list").
using copy_filter = std::function<bool(const std::filesystem::path& inside)>;

// How a regular file comes into the image. `link` makes a hard link where both lie on one filesystem: for files that are
// many and that their owner replaces by a rename, never writes in place.
enum class by { copy, link };

// Copies `path` (absolute, as seen inside the image) from below `from` to below `to`; what is above it is made where
// absent. Absent in `from` is no error. Everything copied belongs to whoever copies, without setuid and setgid bits.
//
// Left out: what the filter refuses, what not everybody on the machine may read (a key that nobody thought of is
// hardly ever world-readable, and idmapped it would be root's inside), devices, sockets, FIFOs, and links to
// anywhere but /usr and /etc. No link is followed, so nothing comes in through one. Throws std::system_error.
void copy_tree(int from, int to, const std::filesystem::path& path, const copy_filter& filter,
               by how = by::copy);

// What lies in a folder, in order; nothing where it is absent.
[[nodiscard]] std::vector<std::string> names_in(int below, const char* path);

// A new file with this text and exactly this mode, below `to`.
void make_file(int to, const std::filesystem::path& path, std::string_view text, unsigned mode = 0644);
// A directory with exactly this mode, below `to`, where there is none yet.
void make_folder(int to, const std::filesystem::path& path, unsigned mode = 0755);

} // namespace pinfold
