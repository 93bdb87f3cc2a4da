// How a refusal feels to a program: at once, with an errno that lets it try elsewhere, and never a success that breaks later.
#include "cagebreak/refusal.hpp"
#include "support/time_scale.hpp"

#include <cerrno>
#include <cstdlib>

namespace pinfold::test {
namespace {

std::vector<std::string> timed_python(const std::string& code) {
    return python("scale = " + std::to_string(time_scale()) + "\n" + code);
}

// Connects to each, blocking and not; prints what came of it, and "slow" where that took a second.
const char* const connecting =
    "import errno, select, socket, time\n"
    "for host in ('192.168.1.10', '81.2.69.10', '100.64.0.2', '192.168.1.2', '2a01:4f8:77:1::10',\n"
    "             'fdaa:bbbb:cccc:1::10', '169.254.169.254', '0.1.2.3', '240.0.0.1', '224.0.0.251'):\n"
    "    for blocking in (True, False):\n"
    "        s = socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET)\n"
    "        s.setblocking(blocking)\n"
    "        begin = time.monotonic()\n"
    "        error = s.connect_ex((host, 9000))\n"
    "        if error == errno.EINPROGRESS:\n"
    "            select.select([], [s], [], 5)\n"
    "            error = s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)\n"
    "        print(host, errno.errorcode.get(error, 'connected'))\n"
    "        if time.monotonic() - begin > scale: print('slow', host)\n";

TEST_CASE("B19 a refused connect() fails at once, with EACCES, and is never a success") {
    const probed refused = cage_machine::here().run(sealed(), timed_python(connecting));
    CAPTURE(refused.output, refused.errors);
    CHECK(refused.status == 0);
    CHECK_FALSE(refused.says("connected"));
    CHECK_FALSE(refused.says("slow"));
    CHECK(refused.denials.size() == 20); // each act once
    for (const char* host : {"192.168.1.10", "81.2.69.10", "100.64.0.2", "2a01:4f8:77:1::10", "224.0.0.251"})
        CHECK(refused.says(std::string(host) + " EACCES\n" + host + " EACCES"));
}

TEST_CASE("B19 what the relay alone refuses fails at once, and is never a success") {
    const probed refused = cage_machine::here().run(sealed().without(guard::destinations),
                                                    timed_python(connecting));
    CAPTURE(refused.output, refused.errors);
    CHECK(refused.status == 0);
    CHECK_FALSE(refused.says("connected"));
    CHECK_FALSE(refused.says("slow"));
}

// The kernel drops an ICMP error that finds connect() still at work in its socket: some of a thousand do.
TEST_CASE("B19 none of many connects that the relay alone refuses waits for its SYN to be sent again") {
    const probed refused = cage_machine::here().run(
        sealed().without(guard::destinations),
        timed_python("import socket, time\n"
                     "slow = 0\n"
                     "for host in ('192.168.1.10', 'fdaa:bbbb:cccc:1::10'):\n"
                     "    for at in range(500):\n"
                     "        s = socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET)\n"
                     "        begin = time.monotonic()\n"
                     "        if s.connect_ex((host, 9000)) == 0: print('connected')\n"
                     "        slow += time.monotonic() - begin > 0.9 * scale\n"
                     "        s.close()\n"
                     "print('sent again:', slow)\n"));
    CAPTURE(refused.output, refused.errors);
    CHECK(refused.status == 0);
    CHECK(refused.says("sent again: 0\n"));
    CHECK_FALSE(refused.says("connected"));
}

TEST_CASE("B19 a client goes on to the address that is allowed") {
    cage_machine& machine = cage_machine::here();
    const auto fetch = [](const std::string& addresses) {
        return std::vector<std::string>{"curl",
                                        "-sS",
                                        "--max-time",
                                        "20",
                                        "-w",
                                        "took %{time_total}",
                                        "--resolve",
                                        "www.example.com:80:" + addresses,
                                        "http://www.example.com/"};
    };
    const auto seconds = [](const probed& fetched) {
        const std::size_t at = fetched.output.find("took ");
        return at == std::string::npos ? 99.0 : std::atof(fetched.output.c_str() + at + 5);
    };
    for (const char* addresses : {"[2a01:4f8:77:1::10],93.184.216.34", "192.168.1.10,[2606:2800:220:1::34]",
                                  "[::ffff:192.168.1.10],93.184.216.34"}) {
        for (const cage_kind& kind : {sealed(), sealed().without(guard::destinations)}) {
            CAPTURE(addresses);
            machine.net().reset();
            const probed reached = machine.run(kind, fetch(addresses));
            CAPTURE(reached.output, reached.errors);
            CHECK(reached.says("hello from the internet"));
            CHECK(seconds(reached) < time_scale());
            CHECK(machine.net().count("lan", "", "", 80).bytes ==
                  machine.net().count("lan", "", "93.184.216.34", 80).bytes +
                      machine.net().count("lan", "", "2606:2800:220:1::34", 80).bytes);
        }
    }
    const probed refused = machine.run(sealed(), fetch("192.168.1.10,[2a01:4f8:77:1::10]"));
    CAPTURE(refused.output, refused.errors);
    CHECK(refused.status == 7);
    CHECK(seconds(refused) < time_scale());
    const probed allowed = machine.run(sealed(), fetch("[2606:2800:220:1::34],93.184.216.34")); // the twin
    CHECK(allowed.says("hello from the internet"));
    CHECK(seconds(allowed) < time_scale());
}

TEST_CASE("B19 a refused UDP socket that is left open costs nothing") {
    const probed idle = cage_machine::here().run(
        sealed(),
        timed_python(
            "import select, socket, time\n"
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            "s.setblocking(False)\n"
            "for act in (lambda: s.sendto(b'x', ('192.168.1.10', 9000)),\n"
            "            lambda: s.connect(('192.168.1.10', 9000))):\n"
            "    try: act(); print('sent')\n"
            "    except PermissionError: pass\n"
            "begin, events, end = time.process_time(), 0, time.monotonic() + 3\n"
            "while time.monotonic() < end:\n"
            "    ready = select.select([s], [], [s], end - time.monotonic())\n"
            "    events += len(ready[0]) + len(ready[2])\n"
            "print('events', events, 'idle' if time.process_time() - begin < 0.05 * scale else 'busy')\n"));
    CAPTURE(idle.output, idle.errors);
    CHECK_FALSE(idle.says("sent"));
    CHECK(idle.says("events 0 idle"));
}

} // namespace
} // namespace pinfold::test
