// What the tests of the proxy ask, and how they read the answers.
#pragma once

#include <fmt/format.h>
#include <string>
#include <string_view>

namespace pinfold::test {

inline constexpr const char* message =
    R"({"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m"}}})";

inline std::string post(std::string_view path, std::string_view body, std::string_view more = {}) {
    return fmt::format(
        "POST {} HTTP/1.1\r\nHost: cage\r\nContent-Type: application/json\r\n{}Content-Length: {}\r\n\r\n{}",
        path, more, body.size(), body);
}

inline std::string get(std::string_view path) {
    return fmt::format("GET {} HTTP/1.1\r\nHost: cage\r\n\r\n", path);
}

inline std::string status_line(const std::string& answer) {
    return answer.substr(0, answer.find("\r\n"));
}

inline std::size_t count_of(const std::string& text, std::string_view part) {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
    return count;
}

} // namespace pinfold::test
