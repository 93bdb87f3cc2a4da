#include "keeper/client.hpp"

#include <spdlog/spdlog.h>
#include <sys/epoll.h>

namespace pinfold {

namespace {
constexpr std::size_t longest_queue = 1024; // messages that an agent has not read
}

client::client(unique_fd connection, loop& events)
    : channel_(std::move(connection)), events_(events), who_(owner_of(channel_.fd())) {}

client::~client() {
    events_.forget(channel_.fd());
}

bool client::send(wire::message what) {
    if (queue_.size() >= longest_queue) {
        spdlog::warn("the agent of uid {} does not read: its connection is closed", who_.uid);
        return false;
    }
    queue_.push_back(std::move(what));
    return flush();
}

bool client::flush() {
    try {
        while (!queue_.empty() && channel_.try_send(queue_.front())) queue_.pop_front();
    } catch (const std::exception& error) {
        spdlog::info("the agent of uid {} is gone: {}", who_.uid, error.what());
        return false;
    }
    watch_writable(!queue_.empty());
    return true;
}

void client::watch_writable(bool wanted) {
    if (wanted == watching_writable_) return;
    watching_writable_ = wanted;
    events_.change(channel_.fd(), EPOLLIN | (wanted ? static_cast<std::uint32_t>(EPOLLOUT) : 0U));
}

} // namespace pinfold
