// The bodies of requests: strict, bounded, and never an exception.
#include "agent/api/json_in.hpp"
#include "demand.hpp"
#include "spec/validate.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pinfold;
    const std::string_view text = fuzz::text_of(data, size);
    if (const auto run = read_run_request(text)) {
        fuzz::demand(!run->command.argv.empty() && !run->directory.empty());
        fuzz::demand(run->name.empty() || is_name(run->name));
        fuzz::demand(!find_problem(run->limits));
    } else {
        fuzz::demand(!run.error().text().empty());
    }
    if (const auto exec = read_exec_request(text)) fuzz::demand(!exec->argv.empty());
    if (const auto change = read_limits_request(text)) {
        limits_spec limits;
        (*change)(limits);
        fuzz::demand(!find_problem(limits));
    }
    return 0;
}
