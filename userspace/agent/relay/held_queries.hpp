// DNS queries of a flow that were sent to a resolver and not answered yet: the next resolver is asked them again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace pinfold {

class held_queries {
public:
    static constexpr std::size_t most = 8, largest = 1500, id_size = 2;

    // A query that is no DNS, or too long to be kept, is sent once and never again.
    void hold(std::span<const std::byte> query) {
        if (query.size() < id_size || query.size() > largest) return;
        if (queries_.size() == most) queries_.erase(queries_.begin());
        queries_.emplace_back(query.begin(), query.end());
    }

    // False for an answer to nothing that waits: the second resolver's to what the first has answered.
    [[nodiscard]] bool take_answer(std::span<const std::byte> answer) {
        const auto asked = std::ranges::find_if(queries_, [&](const std::vector<std::byte>& query) {
            return answer.size() >= id_size &&
                   std::ranges::equal(answer.first(id_size), std::span(query).first(id_size));
        });
        if (asked == queries_.end()) return false;
        queries_.erase(asked);
        return true;
    }

    [[nodiscard]] bool empty() const noexcept { return queries_.empty(); }
    [[nodiscard]] const std::vector<std::vector<std::byte>>& all() const noexcept { return queries_; }

private:
    std::vector<std::vector<std::byte>> queries_; // the oldest first
};

} // namespace pinfold
