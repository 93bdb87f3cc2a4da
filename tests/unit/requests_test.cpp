#include "agent/api/json_in.hpp"
#include "support/catch.hpp"

using namespace pinfold;

namespace {

std::string problem_of(std::string_view text) {
    const auto read = read_run_request(text);
    return read ? "" : read.error().text();
}

} // namespace

TEST_CASE("a run request is read whole, and what it leaves out has the documented default") {
    const auto read = read_run_request(R"({"mode":"caged","dir":"/p","argv":["a","b c"],"env":{"K":"v=w"},
        "limits":{"memory":67108864,"cpus":1.5,"pids":64},"terminal":{"rows":3,"cols":4},"name":"heron","image":"small"})");
    REQUIRE(read.has_value());
    CHECK(read->mode == run_mode::caged);
    CHECK(read->command.argv == std::vector<std::string>{"a", "b c"});
    CHECK(read->command.environment.at("K") == "v=w");
    CHECK(read->limits == limits_spec{.memory_bytes = 64 << 20, .cpu_percent = 150, .processes = 64});
    CHECK(read->command.terminal == terminal_size{.rows = 3, .columns = 4});
    const auto least = read_run_request(
        R"({"mode":"sealed","dir":"/p","argv":["a"],"terminal":null,"limits":null})");
    REQUIRE(least.has_value());
    CHECK(least->image == "host");
    CHECK(least->limits == limits_spec{});
    CHECK_FALSE(least->command.terminal.has_value());
}

TEST_CASE("what is wrong in a request is named by its key") {
    CHECK(problem_of("") == "body: is no JSON");
    CHECK(problem_of("[]") == "must be an object");
    CHECK(problem_of(R"({"mode":"caged","dir":"/p","argv":["a"],"x":1})") ==
          "x: is not a key that is known here");
    CHECK(problem_of(R"({"dir":"/p","argv":["a"]})") == "mode: must be 'sealed', 'caged' or 'uncaged'");
    CHECK(problem_of(R"({"mode":"caged","argv":["a"]})") == "dir: must be an absolute path");
    CHECK(problem_of(R"({"mode":"caged","dir":"/p"})") == "argv: must name a program");
    CHECK(problem_of(R"({"mode":"caged","dir":"/p","argv":"a"})") == "argv: must be a list of strings");
    CHECK(problem_of(R"({"mode":"caged","dir":"/p","argv":[1]})") == "argv: must be a list of strings");
    CHECK(problem_of(R"({"mode":"caged","dir":"/p\u0000x","argv":["a"]})") ==
          "dir: must not hold a NUL byte");
    CHECK(problem_of(R"({"mode":"caged","dir":"/p","argv":["a"],"limits":{"memory":-1}})") ==
          "limits.memory: must be a whole number, not negative");
    CHECK(problem_of(R"({"mode":"caged","dir":"/p","argv":["a"],"limits":{"pids":99999999999}})") ==
          "limits.pids: is too large");
    CHECK(problem_of(R"({"mode":"caged","dir":"/p","argv":["a"],"env":{"A=B":"c"}})") ==
          "env: 'A=B' is no name of a variable");
    CHECK(problem_of(R"({"mode":"caged","dir":"/p","argv":["a"],"env":{"A":1}})") ==
          "env.A: must be a string without a NUL byte");
    CHECK(problem_of(std::string(100'000, '[')) == "body: is nested too deeply");
}

TEST_CASE("a change of limits touches what it names and nothing else") {
    const auto change = read_limits_request(R"({"cpus":0.5})");
    REQUIRE(change.has_value());
    limits_spec limits{.memory_bytes = 1 << 30, .cpu_percent = 400, .processes = 10};
    (*change)(limits);
    CHECK(limits == limits_spec{.memory_bytes = 1 << 30, .cpu_percent = 50, .processes = 10});
    CHECK_FALSE(read_limits_request("{}").has_value());
    CHECK_FALSE(read_limits_request(R"({"memory":1})").has_value());
}

TEST_CASE("the environment of a cage is PATH, HOME, what was asked for, and where it is; in that, nothing "
          "can be forged") {
    command_request request{.argv = {"a"}, .environment = {{"PINFOLD_MODE", "uncaged"}, {"HOME", "/h"}}};
    const auto list = make_environment(request, run_mode::sealed, "heron");
    CHECK(list == std::vector<std::string>{
                      "HOME=/h", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                      "PINFOLD_CAGE=heron", "PINFOLD_MODE=sealed"});
}

TEST_CASE("resolv.conf is read as the resolver reads it") {
    const auto settings = parse_resolv_conf(
        "# a comment\nnameserver 127.0.0.53\nnameserver fe80::1%eth0\nnameserver not-an-address\n"
        "domain old.example\nsearch a.example b.example .\nnameserver 9.9.9.9\nnameserver 1.1.1.1\n");
    CHECK(settings.servers == std::vector<std::string>{"127.0.0.53", "fe80::1%eth0", "9.9.9.9"});
    CHECK(settings.search == std::vector<std::string>{"a.example", "b.example"});
    CHECK(parse_resolv_conf("").servers == std::vector<std::string>{"127.0.0.1"});
}
