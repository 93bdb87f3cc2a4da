// Small files read and written through a directory fd, never through a path that somebody could swap.
#pragma once

#include "base/unique_fd.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace pinfold {

// Reads at most 1 MiB of a small file, such as one of proc or a cgroup. Throws std::system_error.
[[nodiscard]] std::string read_file_at(int directory, const char* name);
[[nodiscard]] std::string read_file(const std::filesystem::path& path);
// One write(2) with all of it, as proc and cgroup files want it.
void write_file_at(int directory, const char* name, std::string_view value);
// Creates or replaces a file whole: readers see the old one or the new one (rename). Mode 0600 unless said otherwise.
void replace_file_at(int directory, const std::string& name, std::string_view value, unsigned mode = 0600);

[[nodiscard]] unique_fd open_directory(const std::filesystem::path& path);
// Makes `path` and what is above it, where absent, with this mode; the last one must not be a link.
[[nodiscard]] unique_fd make_directory(const std::filesystem::path& path, unsigned mode = 0700);
// Removes a tree, links never followed and mount points never crossed. What cannot be removed is left, and said by
// the result: the number of entries that stayed.
std::size_t remove_tree_at(int directory, const char* name);

// A whole number in decimal, with nothing beside it but one trailing newline.
[[nodiscard]] std::optional<std::uint64_t> parse_number(std::string_view text);

} // namespace pinfold
