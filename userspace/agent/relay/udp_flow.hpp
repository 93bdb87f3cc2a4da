// One UDP or echo flow of a cage. A query to the gateway's port 53 may ask several resolvers, so it may have several
// upstream sockets.
#pragma once

#include "agent/relay/core.hpp"
#include "agent/relay/held_queries.hpp"
#include "agent/relay/watch.hpp"

#include <memory>
#include <vector>

namespace pinfold {

class udp_side;

class udp_flow final : public timed, public unlinking_hook {
public:
    udp_flow(udp_side& side, const flow_key& key, bool to_resolver);
    udp_flow(const udp_flow&) = delete;
    udp_flow& operator=(const udp_flow&) = delete;
    ~udp_flow();

    // A datagram or an echo request of the flow; opens its socket first if need be. It may end the flow.
    void send(const packet& from);
    void refuse(); // too late to be lawful: a route has come; ends the flow
    [[nodiscard]] const flow_key& key() const noexcept { return key_; }
    [[nodiscard]] bool quiet() const noexcept; // no operation in flight
    void abandon();                            // no packets any more; udp_side::left follows unless quiet

private:
    class upstream final : public chore, public watcher {
    public:
        upstream(udp_flow& flow, unique_fd socket, endpoint to);
        bool work(allowance& left) noexcept override;
        void woken(watch&) noexcept override;

        const unique_fd socket;
        const endpoint to;
        watch readable;

    private:
        udp_flow& flow_;
    };

    std::optional<steady::time_point> due(steady::time_point now) noexcept override;
    [[nodiscard]] int open(const endpoint& to); // 0 or errno
    void send_on(std::span<const std::byte> datagram);
    void send_echo(const packet& from);
    [[nodiscard]] bool answered(std::span<const std::byte> payload); // false = the flow is gone
    [[nodiscard]] bool answered_echo(std::span<const std::byte> message);
    void failed(int error);

    [[nodiscard]] bool open_resolver();
    bool next_resolver(); // false = there was none, and the flow is gone

    udp_side& side_;
    flow_key key_;
    std::vector<std::unique_ptr<upstream>> upstreams_; // the last one is sent to
    held_queries queries_;                             // to the gateway, not answered yet
    steady::time_point used_;
    steady::time_point asked_; // the present resolver
    std::size_t resolvers_tried_ = 0;
    std::uint32_t out_ = 0; // datagrams, of DNS
    std::uint32_t in_ = 0;
    bool to_resolver_;
    bool abandoned_ = false;
};

} // namespace pinfold
