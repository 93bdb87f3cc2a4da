// Tells when the machine's routes, rules, addresses or links have changed: what is open is judged again then.
#pragma once

#include "agent/relay/watch.hpp"
#include "base/unique_fd.hpp"

#include <functional>

namespace pinfold {

class route_news final : public watcher {
public:
    // Of the network namespace that the calling thread is in. Throws std::system_error.
    route_news(uring& ring, std::function<void()> changed);
    route_news(const route_news&) = delete;
    route_news& operator=(const route_news&) = delete;
    ~route_news() = default; // only after ended()

    void stop();
    [[nodiscard]] bool ended() const noexcept { return !readable_.armed(); }

private:
    void woken(watch&) noexcept override;
    void drain() noexcept;

    unique_fd socket_;
    watch readable_;
    std::function<void()> changed_;
    bool stopping_ = false;
};

} // namespace pinfold
