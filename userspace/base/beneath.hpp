// Opens what lies below a folder that somebody hostile writes to, and goes on writing to: no link is followed, no mount
// is entered, and nothing but folders and plain files is ever opened.
#pragma once

#include "base/unique_fd.hpp"

#include <string>
#include <string_view>
#include <sys/stat.h>
#include <vector>

namespace pinfold {

// Each gives an empty fd and errno where it fails.

// A place and not its content (O_PATH): of a FIFO or a device nothing is asked that it could answer.
[[nodiscard]] unique_fd find_beneath(int folder, const std::string& path) noexcept;
[[nodiscard]] unique_fd open_folder_beneath(int folder, const std::string& path) noexcept;
// For reading, what find_beneath() found and fstat() called a plain file: that very file, whatever its name is by now.
[[nodiscard]] unique_fd open_found(const unique_fd& place) noexcept;
// Where a link at `folder` leads, if it stays beneath: 0; EXDEV leads out, ENOENT to nothing, ELOOP in circles.
[[nodiscard]] int try_link(int folder, const std::string& path) noexcept;

// Names in it, sorted, without "." and ".."; at most so many, in the order of the disk. `more` = there are others.
[[nodiscard]] std::vector<std::string> names_in(int folder, std::size_t most, bool& more);
// What a link says, not more than 4,096 bytes.
[[nodiscard]] std::string link_text(int folder, const std::string& name);
// At most so many bytes from the beginning of a plain file.
[[nodiscard]] std::string read_at_most(int file, std::size_t most);

// Names are bytes of somebody hostile: one line of UTF-8 in which nothing steers a terminal or begins a new line.
[[nodiscard]] std::string plain_line(std::string_view bytes);

} // namespace pinfold
