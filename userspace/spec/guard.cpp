#include "spec/guard.hpp"

namespace pinfold {

const char* to_string(guard which) noexcept {
    switch (which) {
    case guard::destinations: return "destinations";
    case guard::sockets: return "sockets";
    case guard::options: return "options";
    }
    return "unknown";
}

} // namespace pinfold
