// What people see: colours on a terminal only, tables, one line for each error.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace pinfold::ctl {

enum class colour : std::uint8_t { plain, red, green, yellow, dim, bold };

// The text in this colour where the stream is a terminal that has some (NO_COLOR and TERM=dumb are honoured).
[[nodiscard]] std::string paint(std::FILE* stream, colour how, std::string_view text);

// Columns as wide as they need to be; the first row is the heading.
void print_table(const std::vector<std::vector<std::string>>& rows);

// "pinfold: text" on standard error, or {"error": text}.
void print_error(std::string_view text, bool json);

} // namespace pinfold::ctl
