// Whether this machine enforces what a sealed cage promises: tried once for each connection to a keeper, in the background,
// and waited for by the first sealed start. Without a verdict, or with a bad one, none starts.
#pragma once

#include "agent/event.hpp"
#include "agent/keeper_link.hpp"

#include <exception>
#include <string>
#include <vector>

namespace pinfold {

class cages; // NOLINT(cppcoreguidelines-virtual-class-destructor): it is final, see cages.hpp

// The machine lacks a piece of the enforcement; the API says 422.
class not_enforced : public keeper_refused {
public:
    using keeper_refused::keeper_refused;
};

class sealed_verdict {
public:
    explicit sealed_verdict(cages& owned) : owned_(owned) {}
    sealed_verdict(const sealed_verdict&) = delete;
    sealed_verdict& operator=(const sealed_verdict&) = delete;
    ~sealed_verdict() = default;

    void connected(); // to a keeper: whatever was known was another's
    void forget();    // it is gone

    // Goes on when all is well; throws not_enforced with the missing piece, or why nothing could be tried. A bad verdict
    // is tried again by the next who asks, so that a machine that was mended needs no restart.
    task<> need(std::string name);

private:
    enum class state : std::uint8_t { unknown, trying, good, bad };

    void begin();
    task<> look(std::uint64_t keeper);
    task<> try_machine();

    cages& owned_;
    state state_ = state::unknown;
    std::uint64_t keeper_ = 0; // counts connections: a verdict that comes late is not the next keeper's
    event settled_;
    std::vector<std::string> problems_;
    std::exception_ptr error_;
};

} // namespace pinfold
