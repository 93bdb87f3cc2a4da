#include "agent/options.hpp"

#include "base/default_paths.hpp"

#include <boost/program_options.hpp>
#include <cstdlib>
#include <sstream>
#include <string_view>
#include <system_error>
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
        ("listen", po::value(&into.listen)->value_name("ADDRESS"),
         "address of a mesh at which the API is served, too; may be repeated (none)") //
        ("port", po::value(&into.port)->value_name("PORT"), "port there (7387)")      //
        ("host-name", po::value(&into.host_names)->value_name("NAME"),
         "what clients call this agent there, beside its addresses; may be repeated")              //
        ("claude", po::value(&into.claude)->value_name("PROGRAM"), "Claude Code (claude in PATH)") //
        ("pi", po::value(&into.pi)->value_name("PROGRAM"), "pi (pi in PATH); empty = not offered") //
        ("pi-args", po::value(&into.pi_arguments)->value_name("WORDS"), "further arguments of pi") //
        ("cage-image", po::value(&into.image)->value_name("IMAGE"),
         "what sessions' cages start from (host)") //
        ("cage-memory", po::value(&into.cage_memory)->value_name("SIZE"),
         "memory of a session's cage (4g)")                                                             //
        ("cage-cpus", po::value(&into.cage_cpus)->value_name("NUMBER"), "CPUs of a session's cage (2)") //
        ("sealed-token", path(into.sealed_token),
         "file with the token of sealed sessions (STATE/sealed-claude-token)") //
        ("idle", po::value(&into.idle_seconds)->value_name("SECONDS"),
         "how long a session's program may have nothing to do before it is ended (1800)") //
        ("model-url", po::value(&into.model_url)->value_name("URL"),
         "the model's provider for cages (https://api.anthropic.com)") //
        ("model-key", path(into.model_key),
         "file with the key that is put on caged sessions' requests; mode 600 (the systemd credential "
         "model-key, else STATE/model-key)")                                                               //
        ("model-ca", path(into.model_ca), "certificates that the provider's is judged by (the machine's)") //
        ("model-silence", po::value(&into.model_silence_seconds)->value_name("SECONDS"),
         "how long the provider may be silent before its session is told; given up after 15 times as long "
         "(60)") //
        ("peers", path(into.peers),
         "file that names the machines whose agents cages may ask (STATE/peers.json)") //
        ("shrooms", path(into.shrooms),
         "socket of the shrooms daemon, which is asked instead where it runs (/run/shrooms/shrooms.sock)") //
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
        // Boost words its errors by placeholders like %value%, and one in an option makes what() go round for ever.
        for (const char* each : arguments)
            if (std::string_view(each).find('%') != std::string_view::npos)
                return agent_answer{
                    .text = "pinfold-agent: an option is wrong, perhaps the one with '%' in it: " +
                            std::string(each) + "\n",
                    .status = 2};
        return agent_answer{.text = std::string("pinfold-agent: ") + error.what() +
                                    " (see pinfold-agent --help)\n",
                            .status = 2};
    }
    if (options.model_silence_seconds < 1 || options.model_silence_seconds > 86400)
        return agent_answer{.text = "pinfold-agent: --model-silence is 1 to 86400 seconds\n", .status = 2};
    if (options.api.empty()) options.api = default_api_socket(::geteuid());
    if (options.state.empty()) options.state = default_state_directory(::geteuid());
    const char* credentials = std::getenv("CREDENTIALS_DIRECTORY");
    if (options.model_key.empty() && credentials != nullptr && credentials[0] == '/')
        options.model_key = std::filesystem::path(credentials) / "model-key";
    std::error_code none;
    if (options.model_key.empty() && std::filesystem::exists(options.state / "model-key", none))
        options.model_key = options.state / "model-key";
    if (options.peers.empty()) options.peers = options.state / "peers.json";
    if (options.sealed_token.empty()) options.sealed_token = options.state / "sealed-claude-token";
    return options;
}

} // namespace pinfold
