// TCP of one cage: held SYNs, upstream connections, and the data between two kernel sockets.
#pragma once

#include "agent/relay/core.hpp"
#include "agent/relay/tcp_flow.hpp"
#include "agent/relay/watch.hpp"

#include <memory>
#include <unordered_map>

namespace pinfold {

class held_syn; // NOLINT(cppcoreguidelines-virtual-class-destructor): it is final, see held_syn.hpp
class served_cage;

class tcp_side {
public:
    tcp_side(served_cage& cage, int listener);
    tcp_side(const tcp_side&) = delete;
    tcp_side& operator=(const tcp_side&) = delete;
    ~tcp_side();

    void listen();
    void take(const packet& syn);
    void judge_again(); // resets what would be refused now
    void end();
    [[nodiscard]] bool ended() const noexcept;
    [[nodiscard]] std::size_t flows() const noexcept { return flow_count_; }
    [[nodiscard]] std::size_t pending() const noexcept { return held_.size(); }

    // For held_syn and tcp_flow.
    [[nodiscard]] served_cage& cage() noexcept { return cage_; }
    void expect_accept() { acceptor_.expect(); }
    void forget(const held_syn& which);  // frees it, after its operation if there is one
    void left(held_syn& which) noexcept; // an abandoned one has ended: frees it
    void free(tcp_flow& which) noexcept;

private:
    // Takes connections from the listener: at once those whose SYN was just put back, the others when it is readable.
    class acceptor final : public chore, public watcher, public timed {
    public:
        explicit acceptor(tcp_side& side);
        void expect();
        bool work(allowance& left) noexcept override;
        void woken(watch&) noexcept override;
        std::optional<steady::time_point> due(steady::time_point now) noexcept override;
        watch readable;

    private:
        tcp_side& side_;
        std::size_t expected_ = 0;     // put back, and not looked for yet
        bool taken_unwatched_ = false; // then `readable` ends for a connection that is taken already
        bool drain_ = false;           // it said that there is one
    };

    [[nodiscard]] bool refuse(const packet& syn);
    [[nodiscard]] std::uint32_t rule_now(const endpoint& to) const; // 0 = it may stay
    [[nodiscard]] bool make_room();
    void begin(const packet& syn, const gateway_service* service, bool to_resolver);
    void admit(unique_fd accepted, const sockaddr_storage& peer, socklen_t peer_size);

    served_cage& cage_;
    int listener_;
    acceptor acceptor_;
    std::unordered_map<flow_key, std::unique_ptr<held_syn>, flow_hash> held_;
    intrusive::list<tcp_flow, intrusive::constant_time_size<false>> flows_;
    std::size_t flow_count_ = 0;
    std::size_t leaving_ = 0; // held SYNs that were abandoned, their operation still in flight
    bool ending_ = false;
};

} // namespace pinfold
