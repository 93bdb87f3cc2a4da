// What the script of injected_test.cpp is worth: without the guard it arrives. In a process and a test world of its own.
#include "cagebreak/cage_machine.hpp"
#include "support/catch.hpp"

#include <cerrno>
#include <fstream>
#include <iterator>

using namespace pinfold;
using namespace pinfold::test;

namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
    return count;
}

} // namespace

TEST_CASE("without the guard of destinations the same script reaches an agent's port") {
    cage_machine& machine = cage_machine::here();
    std::ifstream from(PINFOLD_SOURCE_DIR "/tests/agents/injected.py");
    const std::string text{std::istreambuf_iterator<char>(from), {}};
    const std::vector<std::string> run{"/usr/bin/python3", "-c", text, "ports", "6 fd5e:ca9e:7::2"};
    machine.net().reset();
    const probed refused = machine.run(caged().with_open_relay(), run);
    INFO(refused.output << refused.errors);
    CHECK(count_of(refused.output, "errno 13") == 5);
    CHECK(machine.net().count("mesh", "", "", 7387) == nothing);
    const probed reached = machine.run(caged().with_open_relay().without(guard::destinations), run);
    INFO(reached.output << reached.errors);
    CHECK(count_of(reached.output, "reached") >= 1);
    CHECK(machine.net().count("mesh", "tcp", "fd5e:ca9e:7::2", 7387).bytes > 0);
}
