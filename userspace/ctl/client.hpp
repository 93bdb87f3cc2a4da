// The CLI's side of the agent's HTTP API: plain blocking requests over its Unix socket.
#pragma once

#include "base/error.hpp"
#include "base/unique_fd.hpp"

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace pinfold::ctl {

struct reply {
    int status = 0;
    std::string body;
    std::string rest; // bytes behind a 101
};

// The agent said no; its words.
class refusal : public failure {
public:
    refusal(int status, const std::string& text) : failure(text), status_(status) {}
    [[nodiscard]] int status() const noexcept { return status_; }

private:
    int status_;
};

class client {
public:
    explicit client(unique_fd connection) : connection_(std::move(connection)) {}

    // One request and its whole answer. `upgrade` names a protocol to switch to. Throws where the agent goes away.
    reply ask(std::string_view method, std::string_view path, std::string_view body = {},
              std::string_view upgrade = {});
    // The same, with each part of the body as it comes, until the end or until `on_part` returns false.
    int follow(std::string_view path, const std::function<bool(std::string_view)>& on_part);

    // The answer as JSON. Throws refusal where the status is not 2xx.
    nlohmann::json get(std::string_view path);
    nlohmann::json post(std::string_view path, const nlohmann::json& body);
    void remove(std::string_view path);

    [[nodiscard]] unique_fd take_connection() { return std::move(connection_); }

private:
    void send(std::string_view bytes);

    unique_fd connection_;
};

nlohmann::json parse_answer(const reply& from); // throws refusal

} // namespace pinfold::ctl
