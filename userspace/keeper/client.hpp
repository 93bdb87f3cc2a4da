// One agent's connection: who it is, and a bounded queue of what it has not read yet.
#pragma once

#include "keeper/loop.hpp"
#include "keeper/owners.hpp"
#include "wire/channel.hpp"

#include <deque>
#include <expected>

namespace pinfold {

class client {
public:
    client(unique_fd connection, loop& events);
    client(const client&) = delete;
    client& operator=(const client&) = delete;
    ~client();

    [[nodiscard]] const owner& who() const noexcept { return who_; }
    [[nodiscard]] int fd() const noexcept { return channel_.fd(); }
    [[nodiscard]] bool greeted() const noexcept { return greeted_; }
    [[nodiscard]] bool wants_denials() const noexcept { return wants_denials_; }
    void greet(bool denials) noexcept {
        greeted_ = true;
        wants_denials_ = denials;
    }

    // False when the peer is gone, or has not read for so long that its queue is full: it is to be dropped.
    [[nodiscard]] bool send(wire::message what);
    [[nodiscard]] bool flush();
    [[nodiscard]] std::expected<wire::channel::received, problem> receive() {
        return channel_.receive(false);
    }

private:
    void watch_writable(bool wanted);

    wire::channel channel_;
    loop& events_;
    owner who_;
    bool greeted_ = false;
    bool wants_denials_ = false;
    bool watching_writable_ = false;
    std::deque<wire::message> queue_;
};

} // namespace pinfold
