// pinfold-mcp: gives an agent in a cage the tools to work with other agents, over this cage's socket to its own.
#include "incage/mcp/server.hpp"

#include <cstdlib>
#include <iostream>

int main() {
    const char* socket = std::getenv("SHROOMS_AGENT_PROXY");
    const char* session = std::getenv("SHROOMS_AGENT_SESSION");
    const pinfold::mcp::tools with(
        pinfold::mcp::peers(socket != nullptr ? socket : "/run/shrooms-agent/proxy.sock"),
        session != nullptr ? session : "");
    std::ios::sync_with_stdio(false);
    for (std::string line; std::getline(std::cin, line);) {
        if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
        if (const auto answer = pinfold::mcp::answer_line(line, with))
            std::cout << *answer << '\n' << std::flush;
    }
}
