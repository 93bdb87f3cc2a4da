#include "ring/deadlines.hpp"

namespace pinfold {

timed::~timed() {
    if (list_ != nullptr) list_->drop(*this);
}

deadlines::~deadlines() {
    while (!all_.empty()) drop(*all_.begin()->second);
}

void deadlines::set(timed& what, steady::time_point moment) {
    drop(what);
    what.place_ = all_.emplace(moment, &what);
    what.list_ = this;
    alarm_.no_later_than(moment);
}

void deadlines::drop(timed& what) noexcept {
    if (what.list_ == nullptr) return;
    all_.erase(what.place_);
    what.list_ = nullptr;
}

void deadlines::rest() {
    if (all_.empty()) alarm_.let_be();
}

void deadlines::ring_out() {
    const steady::time_point now = steady::now();
    while (!all_.empty() && all_.begin()->first <= now) {
        timed& what = *all_.begin()->second;
        drop(what);
        if (const auto next = what.due(now)) set(what, *next);
    }
    if (!all_.empty()) alarm_.no_later_than(all_.begin()->first);
}

} // namespace pinfold
