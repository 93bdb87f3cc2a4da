#include "ctl/run_options.hpp"

#include "ctl/terminal.hpp"
#include "ctl/units.hpp"
#include "spec/validate.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace pinfold::ctl {

using nlohmann::json;

namespace {

// Of the environment here, a cage gets these and what --env names. A sealed one gets no proxy: its address is local, and
// its password would be in reach of code that is not trusted.
constexpr std::array passed_on{"LANG", "LANGUAGE", "TZ"};
constexpr std::array proxies{"http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy",
                             "HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY"};

bool is_passed_on(const std::string& name, const std::string& mode) {
    if (std::ranges::find(passed_on, name) != passed_on.end() || name.starts_with("LC_")) return true;
    return mode != "sealed" && std::ranges::find(proxies, name) != proxies.end();
}

void put_own_environment(json& into, const std::string& mode, bool everything) {
    for (char** each = ::environ; each != nullptr && *each != nullptr; ++each) {
        const std::string assignment(*each);
        const std::size_t equals = assignment.find('=');
        if (equals == std::string::npos || equals == 0) continue;
        const std::string name = assignment.substr(0, equals);
        if (everything || is_passed_on(name, mode)) into[name] = assignment.substr(equals + 1);
    }
}

void put_named_environment(json& into, const parsed_line& line) {
    if (!line.has("env")) return;
    for (const std::string& each : line.values["env"].as<std::vector<std::string>>()) {
        const std::size_t equals = each.find('=');
        const std::string name = each.substr(0, equals);
        if (name.empty()) throw usage_error(fmt::format("--env: '{}' has no name before '='", each));
        const char* own = equals == std::string::npos ? std::getenv(name.c_str()) : nullptr;
        if (equals == std::string::npos && own == nullptr)
            throw usage_error(fmt::format("--env {}: it is not set here", name));
        into[name] = equals == std::string::npos ? std::string(own) : each.substr(equals + 1);
    }
}

json terminal_of(const parsed_line& line, json& environment) {
    if (!line.values["tty"].as<bool>()) return nullptr;
    if (::isatty(STDIN_FILENO) == 0) throw usage_error("-t needs a terminal at standard input");
    if (const char* kind = std::getenv("TERM"); kind != nullptr && !environment.contains("TERM"))
        environment["TERM"] = kind;
    const window size = window_size().value_or(window{});
    return {{"rows", size.rows}, {"cols", size.columns}};
}

std::string mode_of(const parsed_line& line) {
    std::string mode;
    for (const char* each : {"sealed", "caged", "uncaged"}) {
        if (!line.values[each].as<bool>()) continue;
        if (!mode.empty()) throw usage_error(fmt::format("--{} and --{} exclude each other", mode, each));
        mode = each;
    }
    return mode.empty() ? "caged" : mode;
}

std::string directory_of(const parsed_line& line) {
    const std::filesystem::path wanted = line.has("dir") ? line.text("dir") : ".";
    std::error_code error;
    const std::filesystem::path real = std::filesystem::canonical(wanted, error);
    if (error) fail("cannot use the directory {}: {}", wanted.native(), error.message());
    if (!std::filesystem::is_directory(real, error))
        fail("cannot use {}: it is no directory", wanted.native());
    return real.native();
}

} // namespace

po::options_description limit_description() {
    po::options_description options("Limits");
    options.add_options()                                                                          //
        ("memory,m", po::value<std::string>()->value_name("SIZE"), "memory, like 512m or 4g (4g)") //
        ("cpus", po::value<std::string>()->value_name("N"), "CPUs, like 1.5 (2)")                  //
        ("pids", po::value<std::string>()->value_name("N"), "processes (2048)");
    return options;
}

po::options_description exec_description() {
    po::options_description options("Options");
    options.add_options() //
        ("env,e", po::value<std::vector<std::string>>()->value_name("K=V|K"),
         "a variable; K alone takes it from here") //
        ("tty,t", po::bool_switch(), "a terminal of its own, connected to this one");
    return options;
}

po::options_description run_description() {
    po::options_description options("Options");
    options.add_options()                                                                             //
        ("sealed", po::bool_switch(), "for code that is not trusted: the internet and nothing local") //
        ("caged", po::bool_switch(), "kept in its folder, the network open (the default)")            //
        ("uncaged", po::bool_switch(), "no cage: as if you had started it")                           //
        ("name", po::value<std::string>()->value_name("NAME"), "what it is called (made up)")         //
        ("dir", po::value<std::string>()->value_name("DIR"), "the project (the current directory)")   //
        ("image", po::value<std::string>()->value_name("IMAGE"), "what it starts from (host)")        //
        ("read-only-git", po::bool_switch(), "it cannot change .git/config and .git/hooks");
    options.add(exec_description()).add(limit_description());
    return options;
}

std::string checked_name(const std::string& name) {
    if (!is_name(name))
        throw usage_error(fmt::format(
            "'{}' is no name of a cage: 1 to 64 of a-z, 0-9, '.', '_' and '-', and first a letter "
            "or a digit",
            printable(name)));
    return name;
}

json limits_of(const parsed_line& line) {
    json limits = json::object();
    const auto wrong = [&](const char* option, const char* must) {
        return usage_error(fmt::format("--{} {}: must be {}", option, line.text(option), must));
    };
    if (line.has("memory")) {
        const auto bytes = parse_bytes(line.text("memory"));
        if (!bytes) throw wrong("memory", "an amount like 512m or 4g");
        limits["memory"] = *bytes;
    }
    if (line.has("cpus")) {
        const auto cpus = parse_cpus(line.text("cpus"));
        if (!cpus) throw wrong("cpus", "a number like 1.5");
        limits["cpus"] = *cpus;
    }
    if (line.has("pids")) {
        const auto processes = parse_count(line.text("pids"));
        if (!processes) throw wrong("pids", "a whole number");
        limits["pids"] = *processes;
    }
    return limits;
}

json run_request_of(const parsed_line& line, const owner& whose) {
    if (line.command.empty()) throw usage_error("no command: pinfold run [options] -- CMD…");
    json request{{"mode", mode_of(line)}, {"argv", line.command}};
    if (line.has("name")) request["name"] = checked_name(line.text("name"));
    if (line.has("image")) request["image"] = line.text("image");
    if (line.values["read-only-git"].as<bool>()) {
        if (request["mode"] == "uncaged") throw usage_error("--read-only-git belongs to --caged or --sealed");
        request["read_only_git"] = true;
    }
    request["limits"] = limits_of(line);
    json environment = json::object();
    const std::string mode = request["mode"];
    put_own_environment(environment, mode, mode == "uncaged" && !whose.other);
    put_named_environment(environment, line);
    request["terminal"] = terminal_of(line, environment);
    request["env"] = environment;
    request["dir"] = directory_of(line);
    return request;
}

json exec_request_of(const parsed_line& line) {
    if (line.command.empty()) throw usage_error("no command: pinfold exec NAME [options] -- CMD…");
    json environment = json::object();
    put_own_environment(environment, "sealed", false); // whatever the cage's mode, this passes less
    put_named_environment(environment, line);
    json request{{"argv", line.command}, {"terminal", terminal_of(line, environment)}};
    request["env"] = environment;
    return request;
}

} // namespace pinfold::ctl
