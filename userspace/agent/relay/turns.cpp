#include "agent/relay/turns.hpp"

namespace pinfold {

namespace {

// A cage with few neighbours does much in one go. With many each turn is so short that a stream has that much at hand,
// whatever its window has grown to: were turns longer than some windows, those cages would get less than the others.
// Measured with 200 busy cages, bytes of the least beside the mean: turns of 512 KiB 0.23, of 128 KiB 0.81, of 96 KiB
// 0.80 to 0.95, of 64 KiB 0.88 to 1.00 and a quarter less in all.
constexpr std::size_t round_bytes = 4 * 1024 * 1024, least_turn = 96 * 1024, most_turn = 512 * 1024;

std::size_t turn_of_each(std::size_t cages) noexcept {
    return std::clamp(round_bytes / cages, least_turn, most_turn);
}

} // namespace

bool chore_queue::take_turn(std::size_t bytes) noexcept {
    allowance left(bytes);
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
    const std::size_t each = round.empty() ? 0 : turn_of_each(round.size());
    while (!round.empty()) {
        chore_queue& cage = round.front();
        cage.unlink();
        if (cage.take_turn(each) && !cage.is_linked()) active_.push_back(cage);
    }
    // The ring looks for new completions between two rounds, without waiting.
    if (!active_.empty()) ring_.defer(*this);
}

} // namespace pinfold
