// What `pinfold why` is asked about: an address and a port, or a sentence that says what is wrong with them.
#include "agent/why_target.hpp"
#include "demand.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pinfold;
    const auto target = parse_why_target(fuzz::text_of(data, size));
    if (!target) {
        fuzz::demand(!target.error().text().empty());
        return 0;
    }
    fuzz::demand(target->to.family != 0 && !target->to.is_v4_mapped() && target->to.scope == 0);
    const auto again = parse_why_target(target->text); // its plainest form means the same
    fuzz::demand(again && again->to == target->to && again->protocol == target->protocol);
    return 0;
}
