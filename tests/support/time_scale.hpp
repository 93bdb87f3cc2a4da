// How much longer than on a plain machine a test may wait: a virtual machine without KVM is ten times slower.
#pragma once

#include <cstdlib>

namespace pinfold::test {

// From PINFOLD_TIME_SCALE, which tools/vm sets; 1 without it. For deadlines only: nothing waits longer than it must.
inline int time_scale() {
    static const int scale = [] {
        const char* said = std::getenv("PINFOLD_TIME_SCALE");
        const int value = said == nullptr ? 1 : std::atoi(said);
        return value < 1 ? 1 : value;
    }();
    return scale;
}

} // namespace pinfold::test
