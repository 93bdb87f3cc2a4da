// Buffers for bytes on their way, lent while there are any: an idle connection holds none.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <pinfold/stdio.h>
#include <span>
#include <utility>
#include <vector>

namespace pinfold {

class buffer_pool {
    using block = std::array<std::byte, PINFOLD_FRAME_HEADER + PINFOLD_FRAME_PAYLOAD>;

public:
    class lease {
    public:
        lease(buffer_pool& pool, std::unique_ptr<block> held) : pool_(&pool), held_(std::move(held)) {}
        lease(lease&&) = default;
        lease(const lease&) = delete;
        lease& operator=(const lease&) = delete;
        lease& operator=(lease&&) = delete;
        ~lease() {
            if (held_) pool_->give_back(std::move(held_));
        }
        // Room for a frame's header, then its payload.
        [[nodiscard]] std::span<std::byte> frame() noexcept { return *held_; }
        [[nodiscard]] std::span<std::byte> payload() noexcept {
            return frame().subspan(PINFOLD_FRAME_HEADER);
        }

    private:
        buffer_pool* pool_;
        std::unique_ptr<block> held_;
    };

    [[nodiscard]] lease take() {
        if (free_.empty()) return {*this, std::make_unique<block>()};
        std::unique_ptr<block> held = std::move(free_.back());
        free_.pop_back();
        return {*this, std::move(held)};
    }

private:
    static constexpr std::size_t most_free = 8;

    void give_back(std::unique_ptr<block> held) {
        if (free_.size() < most_free) free_.push_back(std::move(held));
    }

    std::vector<std::unique_ptr<block>> free_;
};

} // namespace pinfold
