#include "spec/cage_spec.hpp"

namespace pinfold {

const char* to_string(cage_mode mode) noexcept {
    return mode == cage_mode::caged ? "caged" : "sealed";
}

} // namespace pinfold
