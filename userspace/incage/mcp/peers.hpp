// The agents, asked through the proxy socket of this cage: plain HTTP over a Unix socket, one connection a request.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pinfold::mcp {

struct machine {
    std::string name;
    std::string addr;
};

struct answer {
    int status = 0;
    std::string body;
};

class peers {
public:
    explicit peers(std::string socket) : socket_(std::move(socket)) {}

    // This machine first. Throws std::runtime_error with what an agent can tell its user.
    [[nodiscard]] std::vector<machine> machines() const;
    // By exact name; "localhost" is this machine, an address stands for itself. Throws.
    [[nodiscard]] machine find(const std::string& name) const;

    [[nodiscard]] answer get(const machine& at, const std::string& path, std::chrono::seconds limit) const;
    [[nodiscard]] answer post(const machine& at, const std::string& path, std::string_view body,
                              std::chrono::seconds limit, std::string_view type = "application/json") const;

private:
    [[nodiscard]] answer ask(const std::string& head, std::string_view body,
                             std::chrono::seconds limit) const;

    std::string socket_;
};

} // namespace pinfold::mcp
