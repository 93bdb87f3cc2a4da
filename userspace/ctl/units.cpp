#include "ctl/units.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <fmt/format.h>

namespace pinfold::ctl {

namespace {

constexpr double largest_amount = 9.0e18;

struct number_and_rest {
    double number;
    std::string_view rest;
};

std::optional<number_and_rest> parse_number(std::string_view text) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number,
                                              std::chars_format::fixed);
    if (error != std::errc() || !std::isfinite(number) || number < 0) return std::nullopt;
    return number_and_rest{number, text.substr(static_cast<std::size_t>(end - text.data()))};
}

} // namespace

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
    const auto parsed = parse_number(text);
    if (!parsed) return std::nullopt;
    std::string unit(parsed->rest);
    for (char& c : unit) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    constexpr std::string_view letters = "kmgt";
    double factor = 1;
    const std::size_t power = unit.empty() ? std::string_view::npos : letters.find(unit.front());
    if (power != std::string_view::npos) {
        factor = std::pow(1024.0, static_cast<double>(power + 1));
        unit.erase(0, 1);
        if (unit == "ib") unit = "b";
    }
    if (!unit.empty() && unit != "b") return std::nullopt;
    const double bytes = parsed->number * factor;
    if (bytes > largest_amount) return std::nullopt;
    return static_cast<std::uint64_t>(bytes);
}

std::optional<double> parse_cpus(std::string_view text) {
    const auto parsed = parse_number(text);
    if (!parsed || !parsed->rest.empty() || parsed->number <= 0) return std::nullopt;
    return parsed->number;
}

std::optional<std::uint32_t> parse_count(std::string_view text) {
    std::uint32_t count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return count;
}

std::string format_bytes(std::uint64_t bytes) {
    constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB"};
    auto amount = static_cast<double>(bytes);
    std::size_t unit = 0;
    while (amount >= 1024 && unit + 1 < units.size()) {
        amount /= 1024;
        ++unit;
    }
    const bool whole = std::abs(amount - std::round(amount)) < 0.05;
    return whole ? fmt::format("{:.0f} {}", amount, units[unit])
                 : fmt::format("{:.1f} {}", amount, units[unit]);
}

std::string printable(std::string_view text) {
    std::string clean;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        // U+0080 to U+009F are control characters too; in UTF-8 they are 0xc2 and this byte.
        const bool c1 = byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
        if (c1) ++i;
        clean += byte < 0x20 || byte == 0x7f || c1 ? '?' : text[i];
    }
    return clean;
}

} // namespace pinfold::ctl
