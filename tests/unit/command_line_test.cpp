#include "ctl/command_line.hpp"
#include "ctl/run_options.hpp"
#include "ctl/units.hpp"
#include "support/catch.hpp"

using namespace pinfold::ctl;
using words = std::vector<std::string>;

namespace {

parsed_line parse_run(const words& arguments) {
    return parse(arguments, run_description(), 0);
}

} // namespace

TEST_CASE("amounts are read as people write them, and nothing else is") {
    CHECK(parse_bytes("1048576") == 1048576U);
    CHECK(parse_bytes("512m") == 512U << 20);
    CHECK(parse_bytes("4G") == 4ULL << 30);
    CHECK(parse_bytes("1.5GiB") == 3ULL << 29);
    CHECK(parse_bytes("64kb") == 64U << 10);
    for (const char* wrong : {"", "lots", "4x", "-1", "1e3", "4gg", "99999999999t", "nan", "4 g"})
        CHECK_FALSE(parse_bytes(wrong));
    CHECK(parse_cpus("1.5") == 1.5);
    CHECK_FALSE(parse_cpus("0"));
    CHECK(parse_count("64") == 64U);
    CHECK_FALSE(parse_count("-1"));
    CHECK_FALSE(parse_count("6.4"));
    CHECK(format_bytes(512U << 20) == "512 MiB");
    CHECK(format_bytes(3ULL << 29) == "1.5 GiB");
    CHECK(format_bytes(17) == "17 B");
}

TEST_CASE(
    "the command begins behind -- or at the first word that is no option, and its own options stay its own") {
    CHECK(parse_run({"--sealed", "--", "ls", "-la", "--name", "x"}).command ==
          words{"ls", "-la", "--name", "x"});
    const parsed_line bare = parse_run({"--name", "heron", "-m", "1g", "-t", "ls", "--sealed"});
    CHECK(bare.command == words{"ls", "--sealed"});
    CHECK(bare.text("name") == "heron");
    CHECK(bare.text("memory") == "1g");
    CHECK_FALSE(bare.values["sealed"].as<bool>());
    CHECK(parse_run({"--", "--", "x"}).command == words{"--", "x"});
    const parsed_line exec = parse({"heron", "-t", "ls", "-l"}, exec_description(), 1);
    CHECK(exec.names == words{"heron"});
    CHECK(exec.command == words{"ls", "-l"});
}

TEST_CASE("an option that is not known, half written, or without its value is refused") {
    CHECK_THROWS_AS(parse_run({"--frob"}), usage_error);
    CHECK_THROWS_AS(parse_run({"--seal"}), usage_error);
    CHECK_THROWS_AS(parse_run({"--name"}), usage_error);
    CHECK_THROWS_AS(parse_run({"-x"}), usage_error);
}

TEST_CASE("what is printed of a cage's own words has no control characters") {
    CHECK(printable("plain \xc3\xa4\xe2\x82\xac") == "plain \xc3\xa4\xe2\x82\xac");
    CHECK(printable("a\x1b[31mb\x07\x7f\n") == "a?[31mb???");
    CHECK(printable("\xc2\x9b"
                    "1m") == "?1m");
}
