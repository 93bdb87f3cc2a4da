// An act: one thing a program in a cage may try, with a name, tried once, and what came of it.
#pragma once

#include <cerrno>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace pinfold::probe {

// What came of an act: `ok`, or the errno it was refused with; beside it what it saw.
struct outcome {
    int error = 0;
    std::string detail;
};

// "a=1 b=2" of its parts; this program is static, and Debian has no static fmt.
template <typename... Parts>
std::string joined(const Parts&... parts) {
    std::string text;
    const auto add = [&text]<typename Part>(const Part& part) {
        if constexpr (std::is_integral_v<Part>)
            text += std::to_string(part);
        else
            text += part;
    };
    (add(parts), ...);
    return text;
}

inline outcome done(std::string detail = {}) {
    return {0, std::move(detail)};
}
inline outcome refused(int error, std::string detail = {}) {
    return {error, std::move(detail)};
}
// `where` is the call that failed, just now.
inline outcome failed(std::string where) {
    return {errno, std::move(where)};
}
// For a system call that was given bad pointers and descriptors, so that nothing is ever done: EPERM and ENOSYS mean
// that it was refused, any other answer that the kernel would have served it.
[[nodiscard]] outcome served(long result);

// Thrown where the arguments make no sense: exit code 2.
class usage_error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

using arguments = std::span<const std::string_view>;

struct act {
    std::string_view name;
    std::string_view usage; // its arguments
    std::size_t least;      // how many it needs
    std::size_t most;
    outcome (*run)(arguments given);
};

// One table a file.
[[nodiscard]] std::span<const act> connect_acts();
[[nodiscard]] std::span<const act> datagram_acts();
[[nodiscard]] std::span<const act> socket_acts();
[[nodiscard]] std::span<const act> ring_acts();
[[nodiscard]] std::span<const act> system_acts();
[[nodiscard]] std::span<const act> file_acts();
[[nodiscard]] std::span<const act> process_acts();

// Null where there is none of this name.
[[nodiscard]] const act* find_act(std::string_view name);

// One forbidden act for each guard and each claim that can be tried from inside; a line each. Its exit code.
int run_doctor();

[[nodiscard]] std::uint64_t number(std::string_view text); // throws usage_error
[[nodiscard]] std::string text_of_error(int error);        // "EACCES"

} // namespace pinfold::probe
