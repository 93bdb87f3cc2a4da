// The tools by which an agent in a cage asks others for work, and reports on its own.
#pragma once

#include "incage/mcp/peers.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace pinfold::mcp {

struct tool_result {
    std::string text;
    bool is_error = false;
};

class tools {
public:
    tools(peers to, std::string session) : to_(std::move(to)), session_(std::move(session)) {}

    [[nodiscard]] static nlohmann::json list(); // as tools/list answers it
    // Never throws: what went wrong is the result, for the model to read.
    [[nodiscard]] tool_result call(const std::string& name, const nlohmann::json& arguments) const;

private:
    [[nodiscard]] tool_result list_agents() const;
    [[nodiscard]] tool_result ask_agent(const nlohmann::json& with) const;
    [[nodiscard]] tool_result task_call(const char* method, const nlohmann::json& with) const;
    [[nodiscard]] tool_result task_update(const nlohmann::json& with) const;
    [[nodiscard]] tool_result send_file(const nlohmann::json& with) const;

    peers to_;
    std::string session_;
};

} // namespace pinfold::mcp
