#include "ctl/command_line.hpp"

#include <boost/program_options/parsers.hpp>

namespace pinfold::ctl {

namespace {

// Does this word take the next one as its value?
bool takes_next(const std::string& word, const po::options_description& options) {
    const bool is_long = word.starts_with("--");
    if (is_long && word.find('=') != std::string::npos) return false;
    if (!is_long && word.size() > 2) return false; // "-n4", or flags together
    const auto* option = options.find_nothrow(is_long ? word.substr(2) : word, false);
    return option != nullptr && option->semantic()->max_tokens() > 0;
}

} // namespace

po::options_description common_description(common_options& into) {
    po::options_description options("For every verb");
    const auto path = [](std::filesystem::path& to) {
        return po::value<std::string>()->value_name("SOCKET")->notifier(
            [&to](const std::string& text) { to = text; });
    };
    options.add_options()                                                                                   //
        ("api", path(into.api), "the agent's socket (PINFOLD_API, else the owner's default)")               //
        ("keeper", path(into.keeper), "the keeper's socket, for an agent that is started (PINFOLD_KEEPER)") //
        ("owner", po::value(&into.owner)->value_name("USER"), "whose cages; only for root")                 //
        ("json", po::bool_switch(&into.json), "JSON for programs (docs/cli.md)")                            //
        ("quiet,q", po::bool_switch(&into.quiet), "no word beside errors")                                  //
        ("help,h", "help for the verb");
    return options;
}

parsed_line parse(const std::vector<std::string>& arguments, const po::options_description& options,
                  std::size_t names) {
    parsed_line line;
    std::vector<std::string> words;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const std::string& word = arguments[i];
        const bool is_option = word.size() > 1 && word.front() == '-';
        if (word == "--" || (!is_option && line.names.size() == names)) {
            line.command.assign(arguments.begin() + static_cast<std::ptrdiff_t>(i + (word == "--" ? 1 : 0)),
                                arguments.end());
            break;
        }
        if (!is_option) {
            line.names.push_back(word);
            continue;
        }
        words.push_back(word);
        if (takes_next(word, options) && i + 1 < arguments.size()) words.push_back(arguments[++i]);
    }
    try {
        const int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
        po::store(po::command_line_parser(words).options(options).style(style).run(), line.values);
        po::notify(line.values);
    } catch (const po::error& error) {
        // Boost words its errors by placeholders like %value%, and one in an option makes what() go round for ever.
        for (const std::string& word : words)
            if (word.find('%') != std::string::npos)
                throw usage_error("an option cannot be read: look at '" + word + "' and those beside it");
        throw usage_error(error.what());
    }
    return line;
}

} // namespace pinfold::ctl
