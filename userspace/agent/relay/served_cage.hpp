// One cage as the relay serves it: its tun, its listener, its flows, and what it may still take.
#pragma once

#include "agent/relay/core.hpp"
#include "agent/relay/tcp.hpp"
#include "agent/relay/udp.hpp"
#include "agent/relay/watch.hpp"

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace pinfold {

class served_cage {
public:
    // `ended` is called once, from within some completion, when everything after end() has come to rest.
    served_cage(relay_core& core, relay_cage from, std::function<void(served_cage&)> ended);
    served_cage(const served_cage&) = delete;
    served_cage& operator=(const served_cage&) = delete;
    ~served_cage() = default; // only after `ended`

    void end();         // resets all flows
    void judge_again(); // ends the flows that would be refused now
    [[nodiscard]] relay_figures figures() const;
    [[nodiscard]] bool answers_at_gateway(int protocol, std::uint16_t port) const;

    // For the flows of this cage.
    [[nodiscard]] relay_core& core() noexcept { return core_; }
    [[nodiscard]] relay_figures& counters() noexcept { return counters_; }
    [[nodiscard]] cage_mode mode() const noexcept { return from_.mode; }
    [[nodiscard]] std::uint64_t id() const noexcept { return from_.id; }
    [[nodiscard]] const std::vector<endpoint>& resolvers() const noexcept { return resolvers_; }
    [[nodiscard]] bool take_fds(std::size_t count) { return core_.fds.take(fds_, count); }
    void give_fds(std::size_t count) { core_.fds.give(fds_, count); }
    void schedule(chore& work) { core_.schedule.add(queue_, work); }
    void write(std::span<const std::byte> whole_packet); // into the tun
    // ICMP error for a flow that is refused; counted by the caller.
    void answer(const flow_key& flow, unreachable why, std::span<const std::byte> quoted = {});
    // The same for a SYN: ends the application's connect(), with `why` where its kernel takes that.
    void answer_syn(const flow_key& flow, unreachable why, std::span<const std::byte> syn,
                    std::uint32_t sequence);
    void refused(std::uint32_t rule, int protocol, const endpoint& to); // counts and tells it
    [[nodiscard]] bool may_complain() noexcept; // a limit for ICMP errors that answer datagrams
    void look_for_end();

    std::size_t first_resolver = 0; // the one that answered last: where the next query goes

private:
    // Reads the tun: a packet that comes alone by one read, a burst of them until it is empty.
    class tun_reader final : public chore, public watcher {
    public:
        explicit tun_reader(served_cage& cage);
        bool work(allowance& left) noexcept override;
        void woken(watch&) noexcept override;
        watch readable;

    private:
        [[nodiscard]] bool in_burst() noexcept;

        served_cage& cage_;
        steady::time_point last_{};
    };

    void take(std::span<const std::byte> bytes);

    relay_core& core_;
    relay_cage from_;
    std::vector<endpoint> resolvers_;
    std::function<void(served_cage&)> ended_;
    relay_figures counters_;
    std::size_t fds_ = 0;
    chore_queue queue_;
    tun_reader reader_;
    tcp_side tcp_;
    udp_side udp_;
    steady::time_point complaints_since_{};
    unsigned complaints_ = 0;
    bool ending_ = false;
};

} // namespace pinfold
