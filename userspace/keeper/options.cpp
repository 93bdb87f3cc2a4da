#include "keeper/options.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <array>
#include <boost/program_options.hpp>
#include <fstream>
#include <iostream>
#include <iterator>
#include <ranges>
#include <sstream>
#include <string_view>
#include <utility>

namespace pinfold {

namespace {

namespace po = boost::program_options;

std::vector<std::string> split_controllers(const std::string& list) {
    static constexpr std::array known{"memory", "cpu", "pids"};
    std::vector<std::string> names;
    for (const auto part : std::views::split(list, ',')) {
        std::string name(part.begin(), part.end());
        if (name.empty()) continue;
        if (std::ranges::find(known, name) == known.end())
            fail("accept-unlimited: \"{}\" is no controller that limits cages (memory, cpu, pids)", name);
        names.push_back(std::move(name));
    }
    return names;
}

unsigned parse_mode(const std::string& text) {
    std::size_t end = 0;
    unsigned long mode = 01000;
    try {
        mode = std::stoul(text, &end, 8);
    } catch (const std::exception&) {
        end = 0;
    }
    if (end == 0 || end != text.size() || mode > 0777)
        fail("socket-mode: \"{}\" is no mode between 0 and 0777", text);
    return static_cast<unsigned>(mode);
}

po::options_description file_keys(keeper_options& options, std::string& unlimited, std::string& mode) {
    po::options_description keys;
    keys.add_options()("cgroup", po::value(&options.cgroup))("bpf-dir", po::value(&options.bpf_dir))(
        "libexec", po::value(&options.libexec))("accept-unlimited", po::value(&unlimited))(
        "first-id", po::value(&options.first_id))("last-id", po::value(&options.last_id))(
        "most-cages", po::value(&options.most_cages))("spare-networks", po::value(&options.spare_networks))(
        "claim-seconds", po::value(&options.claim_seconds))("socket-mode", po::value(&mode))(
        "log-level", po::value(&options.log_level));
    return keys;
}

bool is_below_root(const std::filesystem::path& path) {
    return !path.empty() && path.is_relative() && path.has_filename() &&
           std::ranges::none_of(
               path, [](const std::filesystem::path& part) { return part.native().starts_with('.'); });
}

void read_file_into(keeper_options& options, bool must_exist) {
    std::ifstream file(options.config);
    if (file) return read_configuration(options, file);
    if (must_exist)
        fail("open the configuration {}: {}", options.config.native(),
             std::generic_category().message(errno));
}

} // namespace

void read_configuration(keeper_options& options, std::istream& from) {
    // Boost words its errors by placeholders like %value%, and one within the value itself makes it go round for ever.
    std::istringstream file(std::string(std::istreambuf_iterator<char>(from), {}));
    if (file.view().find('%') != std::string_view::npos)
        fail("the configuration {}: no key and no value holds a '%'", options.config.native());
    std::string unlimited;
    std::string mode;
    const po::options_description keys = file_keys(options, unlimited, mode);
    try {
        po::variables_map values;
        po::store(po::parse_config_file(file, keys), values);
        po::notify(values);
    } catch (const po::error& error) {
        fail("the configuration {}: {}", options.config.native(), error.what());
    }
    options.accept_unlimited = split_controllers(unlimited);
    if (!mode.empty()) options.socket_mode = parse_mode(mode);
    if (!is_below_root(options.cgroup))
        fail("the configuration {}: cgroup must be a path below the root of cgroup v2, like pinfold",
             options.config.native());
    if (!options.bpf_dir.is_absolute())
        fail("the configuration {}: bpf-dir must be an absolute path", options.config.native());
}

keeper_options read_options(int argc, char** argv, bool& done) {
    keeper_options options;
    po::options_description flags(
        "pinfold-keeper: makes and destroys cages; runs as root, in the foreground");
    flags.add_options()("run-dir", po::value(&options.run_dir),
                        "socket and records of running cages (/run/pinfold)")(
        "state-dir", po::value(&options.state_dir), "images and kept files (/var/lib/pinfold)")(
        "config", po::value(&options.config),
        "configuration (/etc/pinfold/keeper.conf)")("help", "print this")("version", "print the version");
    po::variables_map values;
    try {
        po::store(po::command_line_parser(argc, argv).options(flags).positional({}).run(), values);
        po::notify(values);
    } catch (const po::error& error) {
        fail("{}; see pinfold-keeper --help", error.what());
    }
    if (values.contains("help")) std::cout << flags;
    if (values.contains("version")) std::cout << "pinfold-keeper " PINFOLD_VERSION "\n";
    done = values.contains("help") || values.contains("version");
    if (done) return options;
    for (std::filesystem::path* path : {&options.run_dir, &options.state_dir})
        *path = std::filesystem::absolute(*path).lexically_normal();
    read_file_into(options, values.contains("config"));
    return options;
}

} // namespace pinfold
