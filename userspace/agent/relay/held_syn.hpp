// The opening SYN of a connection of a cage, kept back until the upstream has answered, and then until it is accepted.
#pragma once

#include "agent/relay/core.hpp"
#include "agent/relay/watch.hpp"

#include <vector>

namespace pinfold {

class tcp_side;

class held_syn final : public watcher, public timed {
public:
    held_syn(tcp_side& side, const packet& syn);
    held_syn(const held_syn&) = delete;
    held_syn& operator=(const held_syn&) = delete;
    ~held_syn();

    void connect(const endpoint& to); // answers the SYN when it is known how that ended
    void connect_to_resolver();       // one after the other
    void wait_for_accept(const gateway_service* service = nullptr); // puts the SYN back
    void repeated(const packet& syn);
    void refuse(); // too late to be lawful: a route has come; frees it

    [[nodiscard]] const flow_key& key() const noexcept { return key_; }
    [[nodiscard]] bool connecting() const noexcept { return connected_.armed(); }
    [[nodiscard]] bool established() const noexcept { return established_; }
    [[nodiscard]] bool is_same(const packet& syn) const noexcept { return syn.sequence == sequence_; }
    [[nodiscard]] const gateway_service* service() const noexcept { return service_; }
    // The application's kernel repeats a SYN after ever longer pauses; when the next one is overdue it has given up.
    [[nodiscard]] bool overdue(steady::time_point now) const noexcept;
    [[nodiscard]] steady::time_point last_seen() const noexcept { return seen_; }
    [[nodiscard]] unique_fd take_upstream() noexcept;
    void abandon(); // no answer any more; tcp_side::left follows

private:
    void woken(watch&) noexcept override;
    std::optional<steady::time_point> due(steady::time_point now) noexcept override;
    void failed(int error);
    [[nodiscard]] int open(const endpoint& to);

    tcp_side& side_;
    flow_key key_;
    std::uint32_t sequence_;
    std::vector<std::byte> syn_;
    unique_fd upstream_;
    watch connected_;
    const gateway_service* service_ = nullptr;
    steady::time_point seen_;
    steady::duration pause_{};
    std::size_t resolvers_tried_ = 0;
    bool to_resolver_ = false;
    bool established_ = false;
    bool abandoned_ = false;
    bool owns_fds_ = true; // two of the cage's: this one's and the one that will be accepted
};

} // namespace pinfold
