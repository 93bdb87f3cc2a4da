// Why a cage may or may not reach a destination: both walls asked as they stand, and what each of them goes by.
#pragma once

#include "agent/cages.hpp"
#include "agent/why_target.hpp"

#include <optional>
#include <string>

namespace pinfold {

// What a rule goes by. Empty texts where there is nothing to say.
struct why_origin {
    std::string kind;   // "range", "address", "route", "port", "policy", "own", "gateway"; empty = none
    std::string text;   // "192.168.0.0/16", "203.0.113.5", "TCP 7387"
    std::string name;   // what that is: "private networks"
    std::string source; // "RFC 1918"
    std::string device; // the machine's link, of an address or a route
    std::string via;    // a route's next hop
    std::uint32_t table = 0;
};

struct explanation {
    std::string cage; // empty: any of the mode
    run_mode mode = run_mode::sealed;
    why_target target;
    bool allowed = false;
    std::string wall;       // which one refuses: "guards", "relay"; empty where none does
    std::uint32_t rule = 0; // enum pinfold_rule; 0 where none refuses
    std::string why;        // a clause without a full stop
    std::string remedy;     // a sentence; empty where it is allowed
    std::string feels;      // what the program in the cage sees
    why_origin origin;
    std::optional<std::uint32_t> guards; // each wall's own rule; absent where it is not asked
    std::optional<std::uint32_t> relay;
};

// Throws unknown_cage, bad_request where the cage does not run, and what keeper_link throws.
task<explanation> explain_cage(cages& owned, std::string name, why_target target);
// For any cage of this mode that would be made now.
task<explanation> explain_mode(cages& owned, run_mode mode, why_target target);

} // namespace pinfold
