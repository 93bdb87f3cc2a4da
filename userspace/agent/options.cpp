#include "agent/options.hpp"

#include "base/default_paths.hpp"

#include <boost/program_options.hpp>
#include <sstream>
#include <unistd.h>

namespace pinfold {

namespace po = boost::program_options;

namespace {

po::options_description describe(agent_options& into) {
    po::options_description options("pinfold-agent: serves one owner's cages. Options");
    const auto path = [](std::filesystem::path& to) {
        return po::value<std::string>()->value_name("PATH")->notifier(
            [&to](const std::string& text) { to = text; });
    };
    options.add_options()                                                                          //
        ("keeper", path(into.keeper), "socket of the keeper (/run/pinfold/keeper.sock)")           //
        ("state", path(into.state), "directory of the agent's own files (~/.local/state/pinfold)") //
        ("api", path(into.api), "socket to listen at ($XDG_RUNTIME_DIR/pinfold/api.sock)")         //
        ("resolv-conf", path(into.resolv_conf),
         "where a caged cage's resolvers are read from (/etc/resolv.conf)") //
        ("log-level", po::value(&into.log_level)->value_name("LEVEL"),
         "trace, debug, info, warn or error (info)") //
        ("help,h", "this text")                      //
        ("version", "the version");
    return options;
}

} // namespace

std::variant<agent_options, agent_answer> read_agent_options(std::span<const char* const> arguments) {
    agent_options options;
    const po::options_description description = describe(options);
    try {
        po::variables_map values;
        const po::positional_options_description none;
        const int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
        po::store(po::command_line_parser(static_cast<int>(arguments.size()), arguments.data())
                      .options(description)
                      .positional(none)
                      .style(style)
                      .run(),
                  values);
        if (values.contains("help")) {
            std::ostringstream text;
            text << description;
            return agent_answer{.text = text.str()};
        }
        if (values.contains("version")) return agent_answer{.text = "pinfold-agent " PINFOLD_VERSION "\n"};
        po::notify(values);
    } catch (const po::error& error) {
        return agent_answer{.text = std::string("pinfold-agent: ") + error.what() +
                                    " (see pinfold-agent --help)\n",
                            .status = 2};
    }
    if (options.api.empty()) options.api = default_api_socket(::geteuid());
    if (options.state.empty()) options.state = default_state_directory(::geteuid());
    return options;
}

} // namespace pinfold
