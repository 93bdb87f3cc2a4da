// The command line: options for every verb, the verb's own, names, and the command behind them.
#pragma once

#include "base/error.hpp"

#include <boost/program_options/options_description.hpp>
#include <boost/program_options/variables_map.hpp>
#include <filesystem>
#include <string>
#include <sys/types.h>
#include <vector>

namespace pinfold::ctl {

namespace po = boost::program_options;

// Said wrongly; nothing was done.
class usage_error : public failure {
public:
    using failure::failure;
};

struct common_options {
    std::filesystem::path api;    // empty = the default one of the owner
    std::filesystem::path keeper; // for an agent that is started; empty = the default
    std::string owner;            // for root only
    bool json = false;
    bool quiet = false;
};

struct parsed_line {
    po::variables_map values;
    std::vector<std::string> names;   // before the command
    std::vector<std::string> command; // behind "--", or from the first word that is neither option nor name

    [[nodiscard]] bool has(const char* option) const {
        return values.count(option) > 0 && !values[option].defaulted();
    }
    [[nodiscard]] std::string text(const char* option) const {
        return has(option) ? values[option].as<std::string>() : "";
    }
};

// The options every verb takes, before or behind it.
[[nodiscard]] po::options_description common_description(common_options& into);

// `names` words at most are names, what follows is the command. Throws usage_error.
[[nodiscard]] parsed_line parse(const std::vector<std::string>& arguments,
                                const po::options_description& options, std::size_t names);

inline constexpr std::size_t all_are_names = static_cast<std::size_t>(-1);

} // namespace pinfold::ctl
