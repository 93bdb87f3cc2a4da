// The Unix socket the owner's tools reach the agent by: one agent listens there, and only its owner can connect.
#pragma once

#include "base/unique_fd.hpp"

#include <filesystem>
#include <functional>

namespace pinfold {

class api_socket {
public:
    // Makes the directory (0700, the owner's; refused where it is somebody else's), takes the lock, replaces a socket
    // that a dead agent left. Throws where another agent listens.
    // `prepare` runs with the lock and before anybody can connect: what it throws is told by whoever started the agent.
    [[nodiscard]] static api_socket listen(const std::filesystem::path& path,
                                           const std::function<void()>& prepare = {});

    api_socket(api_socket&&) = default;
    api_socket(const api_socket&) = delete;
    api_socket& operator=(const api_socket&) = delete;
    api_socket& operator=(api_socket&&) = delete;
    ~api_socket(); // takes the socket file away

    [[nodiscard]] int fd() const noexcept { return socket_.get(); }

private:
    api_socket(std::filesystem::path path, unique_fd lock, unique_fd socket);

    std::filesystem::path path_;
    unique_fd lock_;
    unique_fd socket_;
};

// May whoever is connected here speak to this agent? The same user or root, as the kernel says.
[[nodiscard]] bool is_owner(int connection);

} // namespace pinfold
