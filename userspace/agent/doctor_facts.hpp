// What of the machine the agent sees: names, proxies, ping, descriptors. None of it is enforcement, all of it explains.
#pragma once

#include "wire/messages.hpp"

#include <vector>

namespace pinfold {

class cages; // NOLINT(cppcoreguidelines-virtual-class-destructor): it is final, see cages.hpp

void add_agent_facts(const cages& owned, std::vector<wire::fact>& into);

} // namespace pinfold
