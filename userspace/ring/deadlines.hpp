// What has to be ended or looked at later; one timer for all of it, and none while there is nothing.
#pragma once

#include "ring/alarm.hpp"

#include <chrono>
#include <map>
#include <optional>

namespace pinfold {

class deadlines;
using steady = std::chrono::steady_clock;

class timed {
public:
    timed(const timed&) = delete;
    timed& operator=(const timed&) = delete;

    // The moment has come. Returns the next one, or nothing; then it may be gone.
    virtual std::optional<steady::time_point> due(steady::time_point now) noexcept = 0;

protected:
    timed() = default;
    ~timed();

private:
    friend class deadlines;
    deadlines* list_ = nullptr; // where it stands, if it does
    std::multimap<steady::time_point, timed*>::iterator place_;
};

class deadlines {
public:
    explicit deadlines(uring& ring) : alarm_(ring, [this] { ring_out(); }) {}
    deadlines(const deadlines&) = delete;
    deadlines& operator=(const deadlines&) = delete;
    ~deadlines(); // what still stands in it is due no more

    void set(timed& what, steady::time_point moment); // instead of the one it had
    void drop(timed& what) noexcept;
    // Where nothing stands in it, nothing rings: an idle ring is not woken for what has ended long ago.
    void rest();
    // Nothing rings any more; ended() once the ring has said so.
    void stop() { alarm_.stop(); }
    [[nodiscard]] bool ended() const noexcept { return !alarm_.armed(); }

private:
    void ring_out();

    std::multimap<steady::time_point, timed*> all_;
    alarm_clock alarm_;
};

} // namespace pinfold
