// A real keeper's own program, while programs enter its cage: what runs there for a moment is written over and read by nobody.
#include "crash/keeper_process.hpp"
#include "support/catch.hpp"

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>
#include <unistd.h>

namespace pinfold::test {
namespace {

// Opens whatever runs, and goes on trying to write to it: once it has ended no ETXTBSY protects it. The image's own
// programs are anybody's to read.
const std::string attacker = R"(
import os, signal
held, seen, said = {}, set(), open('/tmp/said', 'a')
open('/tmp/ready', 'w')
def look(pid):
    try: fd = os.open('/proc/%s/exe' % pid, os.O_RDONLY)
    except OSError: return
    what = os.readlink('/proc/self/fd/%d' % fd)
    if what in held or what.startswith('/usr/'): return os.close(fd)
    held[what] = fd
    os.read(fd, 4)
    print('read', what, file=said, flush=True)
while True:
    for pid in os.listdir('/proc'):
        if not pid.isdigit() or int(pid) in (1, os.getpid()): continue
        new = pid not in seen
        seen.add(pid)
        try:
            if new: os.kill(int(pid), signal.SIGSTOP) # it is looked at while it is what it is now
            look(pid)
            if new: os.kill(int(pid), signal.SIGCONT)
        except OSError: pass
    for what, fd in held.items():
        try:
            to = os.open('/proc/self/fd/%d' % fd, os.O_WRONLY)
            os.write(to, b'overwritten')
            os.close(to)
            print('wrote', what, file=said, flush=True)
        except OSError: pass
)";

std::string keepers_program() {
    std::ostringstream bytes;
    bytes << std::ifstream(PINFOLD_BIN_DIR "/pinfold-keeper", std::ios::binary).rdbuf();
    return bytes.str();
}

// Runs it in the cage and returns what it printed; empty where it could not be run.
std::string run_inside(keeper_link& link, std::uint64_t cage, std::vector<std::string> argv) {
    const wire::message entered = link.ask(
        wire::exec{cage, {.argv = std::move(argv), .environment = {"PATH=/usr/bin:/bin"}, .directory = "/"}});
    if (!std::holds_alternative<wire::entered>(entered.body)) return {};
    std::string output;
    std::array<char, 4096> part{};
    for (ssize_t got = 0; (got = ::read(entered.fds.at(1).get(), part.data(), part.size())) > 0;)
        output.append(part.data(), static_cast<std::size_t>(got));
    (void)link.end_of(cage, std::get<wire::entered>(entered.body).process);
    return output;
}

TEST_CASE("B31 the keeper's own program is neither written over nor read while programs enter") {
    keeper_home home;
    process keeper = home.start();
    keeper_link link(home.socket());
    const std::string ours = keepers_program();
    REQUIRE_FALSE(ours.empty());
    const wire::message made = link.ask(wire::make{sleeping_spec("heron")});
    REQUIRE(std::holds_alternative<wire::made>(made.body));
    const std::uint64_t cage = std::get<wire::made>(made.body).cage;
    REQUIRE(std::holds_alternative<wire::ok>(link.ask(wire::start{cage}).body));
    // Asks the kernel to run, as its interpreter, whatever program is about to become it: the keeper's, inside.
    (void)run_inside(link, cage,
                     {"sh", "-c",
                      "printf '#!/proc/self/exe\\n' >/tmp/script; chmod 755 /tmp/script; cp /usr/bin/sleep "
                      "/tmp/own"});
    const wire::message attack = link.ask(wire::exec{
        cage,
        {.argv = {"python3", "-c", attacker}, .environment = {"PATH=/usr/bin:/bin"}, .directory = "/"}});
    REQUIRE(std::holds_alternative<wire::entered>(attack.body));
    for (int tries = 0; tries < 500 && run_inside(link, cage, {"ls", "/tmp/ready"}).empty(); ++tries)
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (int entry = 0; entry < 50; ++entry) {
        CHECK(run_inside(link, cage, {"echo", "entered"}) == "entered\n"); // entering works meanwhile
        if (entry % 2 == 0) (void)run_inside(link, cage, {"/tmp/script"});
    }
    // The twin of the attack: a program of the cage's own is read, and written over once it has ended.
    (void)run_inside(link, cage, {"/tmp/own", "0.5"});
    std::string said;
    for (int tries = 0; tries < 500 && said.find("wrote") == std::string::npos; ++tries)
        said = run_inside(link, cage, {"cat", "/tmp/said"});
    std::set<std::string> lines; // what was opened once is written over again and again
    std::istringstream each(said);
    for (std::string line; std::getline(each, line);) lines.insert(line);
    CHECK(lines == std::set<std::string>{"read /tmp/own", "wrote /tmp/own"});
    CHECK((keepers_program() == ours)); // not printed where it fails
    CHECK(std::holds_alternative<wire::ok>(link.ask(wire::remove_cage{"heron"}).body));
}

TEST_CASE("a second keeper for one run directory is refused, and the first one goes on") {
    keeper_home home;
    process first = home.start();
    try {
        process second = home.start(); // asks at the socket, where the first one may answer
        REQUIRE(second.reap_within(std::chrono::seconds(5)));
    } catch (const std::runtime_error&) { // it had ended before it was asked
    }
    CHECK_THAT(home.log(), Catch::Matchers::ContainsSubstring(
                               fmt::format("another keeper (process {}) runs on", first.pid())));
    keeper_link link(home.socket());
    CHECK(std::holds_alternative<wire::facts>(link.ask(wire::facts_request{}).body));
    // Dead it holds nothing any more.
    REQUIRE(first.signal(SIGKILL));
    REQUIRE(first.reap_within(std::chrono::seconds(5)));
    CHECK_NOTHROW(first = home.start());
}

} // namespace
} // namespace pinfold::test
