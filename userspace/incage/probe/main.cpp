// pinfold-probe: a static program that tries one act inside a cage and says what came of it.
//
// pinfold-probe NAME [ARGUMENT…]   prints "NAME ok", "NAME ok WHAT IT SAW" or "NAME EACCES WHERE"
// pinfold-probe doctor             the acts that `pinfold doctor` shows, a line each
// pinfold-probe help               every act and its arguments
//
// Exit code: 0 the act succeeded, 1 it was refused, 2 no such act.
#include "incage/probe/act.hpp"

#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <vector>

namespace pinfold::probe {

namespace {

constexpr int exit_refused = 1;
constexpr int exit_usage = 2;

std::array<std::span<const act>, 7> all_acts() {
    return {connect_acts(), datagram_acts(), socket_acts(), ring_acts(),
            system_acts(),  file_acts(),     process_acts()};
}

int show_help() {
    for (const std::span<const act> table : all_acts())
        for (const act& each : table)
            std::printf("%-18.*s %.*s\n", static_cast<int>(each.name.size()), each.name.data(),
                        static_cast<int>(each.usage.size()), each.usage.data());
    return 0;
}

int show(std::string_view name, const outcome& result) {
    const std::string what = result.error == 0 ? "ok" : text_of_error(result.error);
    std::printf("%.*s %s%s%s\n", static_cast<int>(name.size()), name.data(), what.c_str(),
                result.detail.empty() ? "" : " ", result.detail.c_str());
    std::fflush(stdout);
    return result.error == 0 ? 0 : exit_refused;
}

int try_act(arguments given) {
    const act* found = given.empty() ? nullptr : find_act(given[0]);
    if (found == nullptr) throw usage_error("no such act; 'pinfold-probe help' lists them");
    const arguments rest = given.subspan(1);
    if (rest.size() < found->least || rest.size() > found->most)
        throw usage_error(joined(found->name, " ", found->usage));
    return show(found->name, found->run(rest));
}

} // namespace

outcome served(long result) {
    if (result >= 0) return done();
    if (errno == EPERM || errno == ENOSYS || errno == EACCES) return refused(errno);
    return done(text_of_error(errno));
}

const act* find_act(std::string_view name) {
    for (const std::span<const act> table : all_acts())
        for (const act& each : table)
            if (each.name == name) return &each;
    return nullptr;
}

std::uint64_t number(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size())
        throw usage_error("no number: " + std::string(text));
    return value;
}

std::string text_of_error(int error) {
    const char* name = ::strerrorname_np(error);
    return name != nullptr ? name : joined("E", error);
}

} // namespace pinfold::probe

int main(int argc, char* argv[]) {
    const std::vector<std::string_view> given(argv + 1, argv + argc);
    try {
        if (given.size() == 1 && given[0] == "doctor") return pinfold::probe::run_doctor();
        if (given.size() == 1 && given[0] == "help") return pinfold::probe::show_help();
        return pinfold::probe::try_act(given);
    } catch (const pinfold::probe::usage_error& error) {
        std::fprintf(stderr, "pinfold-probe: %s\n", error.what());
        return pinfold::probe::exit_usage;
    }
}
