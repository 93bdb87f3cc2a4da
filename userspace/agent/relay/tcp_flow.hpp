// A TCP connection of a cage and its upstream one: two directions, each ended by its own end of stream.
#pragma once

#include "agent/relay/core.hpp"
#include "agent/relay/watch.hpp"

#include <array>

namespace pinfold {

class tcp_side;

class tcp_flow final : public watcher, public unlinking_hook {
public:
    // Both sockets reset their peer when closed (SO_LINGER): so does the kernel if the agent dies.
    tcp_flow(tcp_side& side, unique_fd inside, unique_fd outside);
    tcp_flow(const tcp_flow&) = delete;
    tcp_flow& operator=(const tcp_flow&) = delete;
    ~tcp_flow() = default; // by tcp_side::free

    void reset();                               // both ends; tcp_side::free follows
    [[nodiscard]] endpoint destination() const; // as the application asked for it

private:
    class direction final : public chore {
    public:
        direction(tcp_flow& flow, uring& ring, std::uint64_t& counted);
        bool work(allowance& left) noexcept override;

        watch readable; // of `from`
        watch writable; // of `to`
        int from = -1;
        int to = -1;
        bool ended = false;

    private:
        [[nodiscard]] bool end_of_stream();

        tcp_flow& flow_;
        std::size_t reach_ = chunk_size; // how much is looked at in one go
        std::uint64_t& counted_;
    };

    void woken(watch& by) noexcept override;
    bool finish(); // both directions have ended; always false
    void free_when_quiet();

    tcp_side& side_;
    unique_fd inside_;
    unique_fd outside_;
    direction up_;
    direction down_;
    bool dying_ = false;
    bool finished_ = false; // both sides have said all: closing is no reset
};

} // namespace pinfold
