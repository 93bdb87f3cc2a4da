// How a failed call becomes an exception that names the act and the object.
#pragma once

#include <cerrno>
#include <concepts>
#include <fmt/format.h>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

namespace pinfold {

// What was wrong with something that was read: where, and what it must be. A value, never thrown by a parser.
struct problem {
    std::string where;
    std::string what;

    [[nodiscard]] std::string text() const { return where.empty() ? what : where + ": " + what; }
};

// A failure that has no errno: the text says attempt, object, reason and what to do.
class failure : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
    throw failure(fmt::format(text, std::forward<Args>(args)...));
}

template <typename... Args>
[[noreturn]] void fail_errno(int error, fmt::format_string<Args...> text, Args&&... args) {
    throw std::system_error(error, std::generic_category(), fmt::format(text, std::forward<Args>(args)...));
}

// The result, or a std::system_error with errno (read before anything is formatted) and this text.
template <std::signed_integral T, typename... Args>
T check(T result, fmt::format_string<Args...> text, Args&&... args) {
    if (result < 0) fail_errno(errno, text, std::forward<Args>(args)...);
    return result;
}

// The same for calls that return -errno (liburing, libbpf, libseccomp).
template <std::signed_integral T, typename... Args>
T check_negative(T result, fmt::format_string<Args...> text, Args&&... args) {
    if (result < 0) fail_errno(static_cast<int>(-result), text, std::forward<Args>(args)...);
    return result;
}

} // namespace pinfold
