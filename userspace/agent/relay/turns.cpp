#include "agent/relay/turns.hpp"

namespace pinfold {

namespace {
constexpr std::size_t turn_bytes = 512 * 1024;
}

bool chore_queue::take_turn() noexcept {
    allowance left(turn_bytes);
    while (!left.empty() && !chores_.empty()) {
        chore& next = chores_.front();
        next.unlink();
        if (next.work(left) && !next.is_linked()) chores_.push_back(next);
    }
    return !chores_.empty();
}

void turns::add(chore_queue& cage, chore& work) {
    if (!work.is_linked()) cage.chores_.push_back(work);
    if (!cage.is_linked()) active_.push_back(cage);
    ring_.defer(*this);
}

void turns::run() noexcept {
    intrusive::list<chore_queue, intrusive::constant_time_size<false>> round;
    round.swap(active_);
    while (!round.empty()) {
        chore_queue& cage = round.front();
        cage.unlink();
        if (cage.take_turn() && !cage.is_linked()) active_.push_back(cage);
    }
    // The ring looks for new completions between two rounds, without waiting.
    if (!active_.empty()) ring_.defer(*this);
}

} // namespace pinfold
