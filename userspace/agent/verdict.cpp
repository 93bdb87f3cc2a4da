#include "agent/verdict.hpp"

#include "agent/cages.hpp"
#include "agent/doctor.hpp"

#include <spdlog/spdlog.h>

namespace pinfold {

// Who waits may have made the connection, and then it is being tried already.
void sealed_verdict::connected() {
    if (state_ != state::trying) begin();
}

void sealed_verdict::begin() {
    state_ = state::trying;
    settled_.reset();
    problems_.clear();
    error_ = nullptr;
    owned_.group().spawn(
        [](sealed_verdict* self, std::uint64_t keeper) -> task<> { co_await self->look(keeper); }, this,
        ++keeper_);
}

void sealed_verdict::forget() {
    ++keeper_;
    state_ = state::unknown;
    settled_.set(); // whoever waits looks again, and asks the keeper that is not there
}

task<> sealed_verdict::try_machine() {
    doctor_report report;
    co_await look_at_machine(owned_, report);
    co_await try_mode(owned_, cage_mode::sealed, report);
    problems_ = std::move(report.problems);
}

task<> sealed_verdict::look(std::uint64_t keeper) {
    std::exception_ptr error;
    try {
        co_await try_machine();
    } catch (...) {
        error = std::current_exception();
    }
    if (keeper != keeper_) co_return; // another keeper has come meanwhile, and is looked at by itself
    error_ = error;
    state_ = error || !problems_.empty() ? state::bad : state::good;
    for (const std::string& each : problems_)
        spdlog::error("no sealed cage starts on this machine: {}", each);
    settled_.set();
}

task<> sealed_verdict::need(std::string name) {
    if (state_ == state::bad || state_ == state::unknown) begin();
    while (state_ == state::trying) co_await settled_.wait();
    if (state_ == state::good) co_return;
    if (error_) std::rethrow_exception(error_);
    if (state_ == state::unknown)
        throw keeper_unreachable("the keeper went away while the machine was looked at");
    std::string list;
    for (const std::string& each : problems_) list += (list.empty() ? "" : "; ") + each;
    throw not_enforced(
        fmt::format("cannot start \"{}\" sealed: this machine does not enforce what sealed promises: {}; "
                    "'pinfold doctor' shows all of it",
                    name, list));
}

} // namespace pinfold
