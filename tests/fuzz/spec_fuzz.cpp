// A spec that an agent sends is validated and planned by root: whatever passes has a plan, in the order that may never change.
#include "demand.hpp"
#include "spec/plan.hpp"
#include "spec/validate.hpp"
#include "wire/codec.hpp"

#include <algorithm>

namespace {

template <typename Step>
std::size_t place_of(const std::vector<pinfold::step>& steps) {
    const auto found = std::ranges::find_if(
        steps, [](const auto& one) { return std::holds_alternative<Step>(one); });
    return static_cast<std::size_t>(found - steps.begin());
}

void check_plan(const pinfold::cage_spec& spec) {
    using namespace pinfold;
    const machine_facts facts{
        .kernel = "6.1.0", .memory_controller = true, .cpu_controller = true, .pids_controller = true};
    const plan_inputs inputs{.cgroup_name = "0000000000000001", .id_base = 0x70000000};
    const std::vector<step> steps = plan(spec, facts, inputs);
    fuzz::demand(place_of<attach_guard>(steps) < place_of<start_child>(steps));
    fuzz::demand(place_of<write_policy>(steps) < place_of<start_child>(steps));
    fuzz::demand(place_of<start_child>(steps) < steps.size());
    for (const step& each : steps) fuzz::demand(!describe(each).empty());
    if (spec.mode == cage_mode::sealed) fuzz::demand(spec.search_domains.empty());
    fuzz::demand(spec.project.empty() || spec.project.is_absolute());
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pinfold;
    const auto read = wire::decode(fuzz::bytes_of(data, size));
    if (!read) return 0;
    const auto* asked = std::get_if<wire::make>(&read->body);
    if (asked == nullptr) return 0;
    const auto problem = find_problem(asked->spec);
    if (problem)
        fuzz::demand(!problem->where.empty() && !problem->what.empty());
    else
        check_plan(asked->spec);
    return 0;
}
