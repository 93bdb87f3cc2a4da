// What this machine enforces, tried and not assumed: forbidden acts in a scratch cage, and what the keeper knows.
#pragma once

#include "agent/denial_log.hpp"
#include "ring/task.hpp"
#include "spec/cage_spec.hpp"
#include "wire/messages.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace pinfold {

class cages; // NOLINT(cppcoreguidelines-virtual-class-destructor): it is final, see cages.hpp

struct doctor_probe { // one forbidden act
    cage_mode mode = cage_mode::sealed;
    std::string name;
    bool refused = false;
    std::string detail;
};

struct doctor_report {
    std::vector<wire::fact> facts;
    std::vector<doctor_probe> probes;
    std::uint64_t sealed_denials = 0, caged_denials = 0;
    std::vector<std::string> problems; // what is not enforced, a clause each; empty = all is well
};

// Facts of the keeper and of this agent. Throws what keeper_link throws.
task<> look_at_machine(cages& owned, doctor_report& into);
// The acts, in a cage of this mode; a cage that cannot be made is a problem.
task<> try_mode(cages& owned, cage_mode mode, doctor_report& into);

// The probe's lines, name TAB refused|allowed TAB detail. It was written by us, but it runs in a cage: nothing is believed
// beyond its shape.
[[nodiscard]] std::vector<doctor_probe> parse_probe(std::string_view text, cage_mode mode);
// What is wrong with these, for a cage whose denials are in the log: an act that was allowed, a guard that was not tried,
// a refusal of which no denial came (it may be another's, and then the guard is not known to be there).
[[nodiscard]] std::vector<std::string> judge_probes(const std::vector<doctor_probe>& list, cage_mode mode,
                                                    std::uint64_t cage, const denial_log& denials);

} // namespace pinfold
