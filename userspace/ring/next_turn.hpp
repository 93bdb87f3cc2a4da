// A long piece of work lets the others go on: `co_await next_turn(ring)` comes back behind what was ready by then.
#pragma once

#include "ring/uring.hpp"

namespace pinfold {

class [[nodiscard]] next_turn final : public deferred {
public:
    explicit next_turn(uring& ring) : ring_(ring) {}
    next_turn(const next_turn&) = delete;
    next_turn& operator=(const next_turn&) = delete;
    ~next_turn() = default;

    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> caller) {
        caller_ = caller;
        ring_.defer(*this);
    }
    void await_resume() const noexcept {}
    void run() noexcept override { caller_.resume(); }

private:
    uring& ring_;
    std::coroutine_handle<> caller_;
};

} // namespace pinfold
