// UDP and echo of one cage: a connected upstream socket for each flow, ended by time, by an error or by its last answer.
#pragma once

#include "agent/relay/core.hpp"
#include "agent/relay/udp_flow.hpp"

#include <memory>
#include <unordered_map>

namespace pinfold {

class served_cage;

class udp_side {
public:
    explicit udp_side(served_cage& cage);
    udp_side(const udp_side&) = delete;
    udp_side& operator=(const udp_side&) = delete;
    ~udp_side();

    void take(const packet& from); // UDP or echo
    void judge_again();            // ends what would be refused now
    void end();
    [[nodiscard]] bool ended() const noexcept { return flows_.empty() && leaving_ == 0; }
    [[nodiscard]] std::size_t flows() const noexcept { return flows_.size(); }

    // For udp_flow.
    [[nodiscard]] served_cage& cage() noexcept { return cage_; }
    void used(udp_flow& which) noexcept; // it is the newest now
    void forget(udp_flow& which);        // frees it, after its operations
    void left(udp_flow& which) noexcept;
    [[nodiscard]] bool take_fd(const udp_flow& not_this); // the oldest idle flow makes room
    void report_no_ping(int error);

private:
    [[nodiscard]] bool refuse(const packet& from);
    void complain(const packet& from, unreachable why);
    udp_flow* begin(const packet& from);

    served_cage& cage_;
    std::unordered_map<flow_key, std::unique_ptr<udp_flow>, flow_hash> flows_;
    intrusive::list<udp_flow, intrusive::constant_time_size<false>> by_age_; // the oldest first
    std::size_t leaving_ = 0;
};

} // namespace pinfold
