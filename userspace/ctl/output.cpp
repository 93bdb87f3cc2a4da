#include "ctl/output.hpp"

#include "ctl/units.hpp"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace pinfold::ctl {

namespace {

bool has_colours(std::FILE* stream) {
    const char* terminal = std::getenv("TERM");
    const char* no_colour = std::getenv("NO_COLOR");
    return ::isatty(::fileno(stream)) == 1 && terminal != nullptr && std::string_view(terminal) != "dumb" &&
           (no_colour == nullptr || *no_colour == '\0');
}

std::string_view code(colour how) {
    switch (how) {
    case colour::plain: return "";
    case colour::red: return "31";
    case colour::green: return "32";
    case colour::yellow: return "33";
    case colour::dim: return "2";
    case colour::bold: return "1";
    }
    return "";
}

// Characters, not bytes.
std::size_t width(std::string_view text) {
    return static_cast<std::size_t>(
        std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

} // namespace

std::string paint(std::FILE* stream, colour how, std::string_view text) {
    if (how == colour::plain || !has_colours(stream)) return std::string(text);
    return fmt::format("\x1b[{}m{}\x1b[0m", code(how), text);
}

void print_table(const std::vector<std::vector<std::string>>& rows) {
    std::vector<std::size_t> widths;
    for (const auto& row : rows) {
        widths.resize(std::max(widths.size(), row.size()));
        for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
    }
    for (std::size_t r = 0; r < rows.size(); ++r) {
        std::string line;
        for (std::size_t i = 0; i < rows[r].size(); ++i) {
            line += rows[r][i];
            if (i + 1 < rows[r].size()) line.append(widths[i] - width(rows[r][i]) + 2, ' ');
        }
        fmt::print("{}\n", r == 0 ? paint(stdout, colour::bold, line) : line);
    }
}

void print_error(std::string_view text, bool json) {
    if (json) {
        const nlohmann::json line{{"error", text}};
        fmt::print(stderr, "{}\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    } else {
        fmt::print(stderr, "{} {}\n", paint(stderr, colour::red, "pinfold:"), printable(text));
    }
}

} // namespace pinfold::ctl
