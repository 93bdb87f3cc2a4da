// Cages that share the relay: who has more at hand gets no more of it.

#include "agent/relay/turns.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <deque>
#include <vector>

namespace pinfold::test {
namespace {

constexpr std::size_t kib = 1024;

// A stream whose window opens again for each round.
class stream final : public chore {
public:
    explicit stream(std::size_t window) : window_(window), at_hand_(window) {}
    void refill() { at_hand_ = window_; }
    bool work(allowance& left) noexcept override {
        const std::size_t size = std::min(at_hand_, std::max(left.rest(), 4 * kib));
        left.spend(size);
        at_hand_ -= size;
        moved += size;
        return at_hand_ > 0;
    }
    std::size_t moved = 0;

private:
    std::size_t window_, at_hand_;
};

struct crowd {
    void add(std::size_t cages, std::size_t window) {
        for (std::size_t i = 0; i < cages; ++i) {
            streams.emplace_back(window);
            queues.emplace_back();
        }
    }
    void round() {
        for (std::size_t i = 0; i < streams.size(); ++i) {
            streams[i].refill();
            schedule.add(queues[i], streams[i]);
        }
        ring.run_once(false);
    }
    [[nodiscard]] std::vector<std::size_t> moved() const {
        std::vector<std::size_t> all;
        for (const stream& each : streams) all.push_back(each.moved);
        return all;
    }

    uring ring;
    std::deque<chore_queue> queues;
    std::deque<stream> streams;
    turns schedule{ring};
};

TEST_CASE("of many busy cages those with small windows get as much as those with large ones") {
    crowd all;
    all.add(20, 96 * kib);
    all.add(180, 4096 * kib);
    for (int i = 0; i < 10; ++i) all.round();
    const std::vector<std::size_t> moved = all.moved();
    CHECK(std::ranges::min(moved) == std::ranges::max(moved));
    CHECK(std::ranges::min(moved) > 0);
}

TEST_CASE("a cage that is alone does more in one go, and a round of two is the same for both") {
    crowd one, two;
    one.add(1, 4096 * kib);
    two.add(2, 4096 * kib);
    one.round();
    two.round();
    CHECK(one.moved() == std::vector<std::size_t>{512 * kib});
    CHECK(two.moved() == std::vector<std::size_t>{512 * kib, 512 * kib});
}

TEST_CASE("a cage with many streams gets one turn as the others do, and its streams share it") {
    crowd all;
    all.add(100, 4096 * kib);
    std::deque<stream> more(7, stream(4096 * kib));
    for (stream& each : more) all.schedule.add(all.queues.front(), each);
    all.round();
    std::size_t of_first = all.streams.front().moved;
    for (const stream& each : more) of_first += each.moved;
    CHECK(of_first == all.streams.back().moved);
}

} // namespace
} // namespace pinfold::test
