// The keeper's configuration is root's, but a slip in it must be a sentence that names the key and nothing else.
#include "base/error.hpp"
#include "demand.hpp"
#include "keeper/options.hpp"

#include <sstream>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pinfold;
    std::istringstream file{std::string(fuzz::text_of(data, size))};
    keeper_options options;
    try {
        read_configuration(options, file);
    } catch (const failure& error) {
        fuzz::demand(std::string_view(error.what()).size() > 10);
        return 0;
    }
    fuzz::demand(options.bpf_dir.is_absolute() && options.socket_mode <= 0777 && !options.cgroup.empty());
    return 0;
}
