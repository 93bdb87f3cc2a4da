// Who works next: each cage has a turn of bounded length, and within it each of its flows, so a cage that floods the
// relay waits for the others and not they for it.
#pragma once

#include "ring/uring.hpp"

#include <algorithm>
#include <boost/intrusive/list.hpp>
#include <cstddef>

namespace pinfold {

namespace intrusive = boost::intrusive;
using unlinking_hook = intrusive::list_base_hook<intrusive::link_mode<intrusive::auto_unlink>>;

// What is left of a turn, in bytes, which are the same on a slow machine and a fast one. What costs more than its bytes
// says so.
class allowance {
public:
    static constexpr std::size_t small_message = 2 * 1024; // as much as its system calls take
    static constexpr std::size_t packet = 16 * 1024;       // of a tun: most of them make a flow

    explicit allowance(std::size_t bytes) : left_(bytes) {}
    void spend(std::size_t bytes, std::size_t at_least = small_message) noexcept {
        left_ -= std::min(left_, std::max(bytes, at_least));
    }
    [[nodiscard]] bool empty() const noexcept { return left_ == 0; }
    [[nodiscard]] std::size_t rest() const noexcept { return left_; }

private:
    std::size_t left_;
};

// A piece of work of a cage: a flow with something to read, a tun with packets. It leaves its queue when it ends.
class chore : public unlinking_hook {
public:
    // Does a part of it; false = nothing is left for now (or the chore is gone: it is not touched any more).
    virtual bool work(allowance& left) noexcept = 0;

protected:
    ~chore() = default;
};

// The chores of one cage.
class chore_queue : public unlinking_hook {
public:
    [[nodiscard]] bool take_turn(std::size_t bytes) noexcept; // false = empty

private:
    // NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): it is final, which is said below
    friend class turns;
    intrusive::list<chore, intrusive::constant_time_size<false>> chores_;
};

class turns final : public deferred {
public:
    explicit turns(uring& ring) : ring_(ring) {}
    turns(const turns&) = delete;
    turns& operator=(const turns&) = delete;
    ~turns() { ring_.forget(*this); }

    void add(chore_queue& cage, chore& work);

private:
    void run() noexcept override;

    uring& ring_;
    intrusive::list<chore_queue, intrusive::constant_time_size<false>> active_;
};

} // namespace pinfold
