#include "base/default_paths.hpp"
#include "ctl/denied.hpp"
#include "ctl/output.hpp"
#include "ctl/run_options.hpp"
#include "ctl/units.hpp"
#include "ctl/verbs.hpp"

#include <nlohmann/json.hpp>

namespace pinfold::ctl {

using nlohmann::json;

namespace {

void print_denial(const json& denial) {
    if (denial.contains("lost")) {
        fmt::print("{}\n", paint(stdout, colour::yellow,
                                 fmt::format("{} more were not recorded", denial["lost"].dump())));
        return;
    }
    // The relay sees packets and not who sent them.
    const std::string who = denial.value("wall", "") == "relay"
                                ? "by the relay"
                                : fmt::format("{}[{}]", printable(denial.value("comm", "")),
                                              denial.value("pid", 0));
    fmt::print("{}  {}  {}  {} {}  {}\n", denial.value("time", ""), printable(denial.value("cage", "")), who,
               denial.value("act", ""), target_of(denial),
               paint(stdout, colour::dim, denial.value("why", "")));
}

// Lines as they come; a part of the body may end within one.
class line_printer {
public:
    explicit line_printer(bool as_json) : as_json_(as_json) {}
    bool put(std::string_view part) {
        held_ += part;
        for (std::size_t end = 0; (end = held_.find('\n')) != std::string::npos; held_.erase(0, end + 1)) {
            const std::string line = held_.substr(0, end);
            const json denial = json::parse(line, nullptr, false);
            if (as_json_)
                fmt::print("{}\n", line);
            else if (denial.is_object())
                print_denial(denial);
        }
        std::fflush(stdout);
        return std::ferror(stdout) == 0;
    }

private:
    std::string held_;
    bool as_json_;
};

void print_doctor(const json& report) {
    for (const json& fact : report.value("facts", json::array())) {
        const bool good = fact.value("good", false);
        fmt::print("{} {:<28} {}\n", paint(stdout, good ? colour::green : colour::red, good ? "ok " : "BAD"),
                   printable(fact.value("name", "")), printable(fact.value("value", "")));
    }
    for (const json& probe : report.value("probes", json::array())) {
        const bool refused = probe.value("refused", false);
        fmt::print("{:<7} {} {:<28} {}\n", probe.value("mode", ""),
                   paint(stdout, refused ? colour::green : colour::plain, refused ? "refused" : "allowed"),
                   printable(probe.value("name", "")),
                   paint(stdout, colour::dim, printable(probe.value("detail", ""))));
    }
    for (const json& problem : report.value("problems", json::array()))
        fmt::print("{} {}\n", paint(stdout, colour::red, "problem:"), printable(problem.get<std::string>()));
    if (report.value("ok", false))
        fmt::print("{}\n", paint(stdout, colour::green, "this machine enforces what pinfold promises"));
}

} // namespace

int denials_verb(common_options& options, const words& arguments) {
    po::options_description own("Options");
    own.add_options()("follow,f", po::bool_switch(), "go on with those to come");
    const auto line = read_verb(options, arguments, "pinfold denials [-f] [NAME]", own, all_are_names);
    if (!line) return 0;
    if (line->names.size() > 1) throw usage_error("one name at most: pinfold denials [-f] [NAME]");
    std::string path = "/v1/denials?follow=";
    path += line->values["follow"].as<bool>() ? "1" : "0";
    if (!line->names.empty()) path += "&cage=" + checked_name(line->names.front());
    client agent = agent_of(options);
    line_printer lines(options.json);
    if (line->values["follow"].as<bool>())
        return agent.follow(path, [&](std::string_view part) { return lines.put(part); }) == 200 ? 0 : 1;
    const reply answer = agent.ask("GET", path);
    if (answer.status != 200) parse_answer(answer);
    lines.put(answer.body);
    return 0;
}

int doctor_verb(common_options& options, const words& arguments) {
    const auto line = read_verb(options, arguments, "pinfold doctor", {}, all_are_names);
    if (!line) return 0;
    const json report = agent_of(options).get("/v1/doctor");
    if (options.json)
        print_json(report);
    else
        print_doctor(report);
    return report.value("ok", false) ? 0 : 1;
}

int version_verb(common_options& options, const words& arguments) {
    const auto line = read_verb(options, arguments, "pinfold version", {}, all_are_names);
    if (!line) return 0;
    // The agent is asked only where it runs: to see a version nothing is started.
    json agent;
    try {
        agent = client(connect_to_agent(options, find_owner(options), false)).get("/v1/version");
    } catch (const std::exception&) {
        agent = nullptr;
    }
    if (options.json) {
        print_json({{"version", PINFOLD_VERSION}, {"agent", agent}});
        return 0;
    }
    fmt::print("pinfold {}\n", PINFOLD_VERSION);
    if (agent.is_null()) {
        fmt::print("agent: not running\n");
        return 0;
    }
    const json keeper = agent.value("keeper", json::object());
    fmt::print("agent {} (pid {})\nkeeper: {} at {}\n", agent.value("version", "?"), agent.value("pid", 0),
               keeper.value("connected", false) ? "connected" : "not connected", keeper.value("socket", "?"));
    return 0;
}

} // namespace pinfold::ctl
