// Waiting for an fd to become readable or writable, once: it looks at the state, not at arrivals, so nothing is missed
// by whoever stops half-way and arms it again.
#pragma once

#include "ring/uring.hpp"

namespace pinfold {

class watch; // NOLINT(cppcoreguidelines-virtual-class-destructor): it is final, which is said below

class watcher {
public:
    virtual void woken(watch& by) noexcept = 0;

protected:
    ~watcher() = default;
};

class watch final : public completion {
public:
    watch(uring& ring, watcher& owner, short events) : ring_(ring), owner_(owner), events_(events) {}
    watch(const watch&) = delete;
    watch& operator=(const watch&) = delete;
    ~watch() = default; // only when not armed

    void arm(int fd) {
        if (armed_) return;
        armed_ = true;
        io_uring_prep_poll_add(&ring_.prepare(*this), fd, static_cast<unsigned>(events_));
    }
    // Its end still comes: the fd must be open, and this object there, until then.
    void cancel() {
        if (armed_) ring_.cancel(*this);
    }
    [[nodiscard]] bool armed() const noexcept { return armed_; }
    // Of the last end: the events that came, or -errno.
    [[nodiscard]] int result() const noexcept { return result_; }

private:
    void complete(int result, unsigned) noexcept override {
        armed_ = false;
        result_ = result;
        owner_.woken(*this);
    }

    uring& ring_;
    watcher& owner_;
    int result_ = 0;
    short events_;
    bool armed_ = false;
};

} // namespace pinfold
