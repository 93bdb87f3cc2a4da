// `pinfold why` and the attempt never disagree: real cages on the machine of the test world, each target asked and tried,
// in both modes, also right after a route has come.
#include "support/catch.hpp"
#include "whole/whole_machine.hpp"

#include <map>

namespace pinfold::test {
namespace {

using nlohmann::json;

whole_machine& here() {
    static whole_machine machine;
    return machine;
}

// Tries each target of its arguments in turn: "TARGET ok", or "TARGET errno". Somebody answers at each that is reached.
constexpr const char* try_all = R"(
import errno, os, socket, struct, sys

def split(target):
    kind, _, rest = target.partition(':')
    if kind == 'ping':
        return kind, rest.strip('[]'), 0
    host, _, port = rest.rpartition(':')
    return kind, host.strip('[]'), int(port)

def reach(kind, host, port):
    family = socket.AF_INET6 if ':' in host else socket.AF_INET
    if kind == 'ping':
        six = family == socket.AF_INET6
        s = socket.socket(family, socket.SOCK_DGRAM, socket.IPPROTO_ICMPV6 if six else socket.IPPROTO_ICMP)
        s.settimeout(3)
        s.sendto(struct.pack('!BBHHH', 128 if six else 8, 0, 0, 0, 1) + b'ping', (host, 0))
        s.recv(100)
        return
    s = socket.socket(family, socket.SOCK_STREAM if kind == 'tcp' else socket.SOCK_DGRAM)
    s.settimeout(3)
    s.connect((host, port))
    s.send(b'ping!')
    if s.recv(5) != b'ping!':
        raise OSError(errno.EPROTO, 'another answer')

for target in sys.argv[1:]:
    try:
        reach(*split(target))
        print(target, 'ok', flush=True)
    except TimeoutError:
        print(target, 'TIMEOUT', flush=True)
    except OSError as error:
        print(target, errno.errorcode.get(error.errno, str(error.errno)), flush=True)
)";

// Somebody is at each of them: the internet, the LAN by its private and its public-looking addresses, the mesh, the machine
// by all of its addresses, and nothing but the rules stands between.
const words targets{"tcp:93.184.216.34:9000",
                    "udp:93.184.216.34:9000",
                    "ping:93.184.216.34",
                    "tcp:9.9.9.9:7387",
                    "udp:9.9.9.9:7387",
                    "tcp:[2606:4700:4700::1111]:9000",
                    "udp:[2606:4700:4700::1111]:9000",
                    "ping:2606:4700:4700::1111",
                    "tcp:[2606:4700:4700::1111]:7387",
                    "tcp:192.168.1.10:9000",
                    "udp:192.168.1.10:9000",
                    "ping:192.168.1.10",
                    "tcp:81.2.69.10:9000",
                    "udp:81.2.69.10:9000",
                    "ping:81.2.69.10",
                    "tcp:[2a01:4f8:77:1::10]:9000",
                    "udp:[2a01:4f8:77:1::10]:9000",
                    "tcp:[fdaa:bbbb:cccc:1::10]:9000",
                    "tcp:100.64.0.2:9000",
                    "udp:100.64.0.2:9000",
                    "ping:100.64.0.2",
                    "tcp:[fd5e:ca9e:7::2]:9000",
                    "tcp:192.168.1.2:9000",
                    "udp:192.168.1.2:9000",
                    "tcp:81.2.69.2:9000",
                    "tcp:[2a01:4f8:77:1::2]:9000",
                    "tcp:100.64.0.1:7387",
                    "tcp:192.0.0.1:9000",
                    "udp:192.0.0.1:9000",
                    "tcp:192.0.0.5:9000",
                    "udp:224.0.0.251:9000",
                    "tcp:240.0.0.1:9000",
                    "tcp:[fd5e:ca9e:1::1]:9000",
                    "tcp:[2002:c0a8:10a::1]:9000",
                    "tcp:[64:ff9b::192.168.1.10]:9000"};

class a_cage {
public:
    a_cage(const char* mode, std::string name)
        : name_(std::move(name)),
          cli_(here().pinfold(),
               {"-q", "run", mode, "--name", name_, "--", "sh", "-c", "echo ready; exec sleep 600"}) {
        REQUIRE(eventually([&] { return cli_.says("ready"); }, std::chrono::seconds(60)));
    }

    // Each target asked and tried; what was said, by target.
    std::map<std::string, json> agree(const words& asked) {
        std::map<std::string, json> said;
        words argv{"exec", name_, "--", "python3", "-I", "-c", try_all};
        argv.insert(argv.end(), asked.begin(), asked.end());
        for (const std::string& target : asked) said[target] = here().ask({"why", name_, target});
        const cli_result tried = here().run(argv);
        CAPTURE(name_, tried.out, tried.err);
        CHECK(tried.status == 0);
        for (const std::string& target : asked) {
            const json& one = said.at(target);
            INFO(target << ": " << one.dump());
            CHECK((tried.out.find(target + " ok\n") != std::string::npos) == one.at("allowed").get<bool>());
            // Refused is never a hang; but a ping socket is told only where it asked for errors (IP_RECVERR).
            if (!target.starts_with("ping:")) CHECK(tried.out.find(target + " TIMEOUT") == std::string::npos);
            if (!one.at("allowed").get<bool>() && one.at("wall") == "guards" && !target.starts_with("ping:"))
                CHECK(tried.out.find(target + " EACCES\n") != std::string::npos);
        }
        return said;
    }

private:
    std::string name_;
    started_cli cli_;
};

TEST_CASE("what is said of a destination is what happens, for all kinds of neighbours and in both modes") {
    a_cage sealed("--sealed", "heron");
    const auto said = sealed.agree(targets);
    CHECK(said.at("tcp:93.184.216.34:9000").at("allowed") == true);
    CHECK(said.at("tcp:192.168.1.10:9000").at("origin").at("source") == "RFC 1918");
    CHECK(said.at("tcp:9.9.9.9:7387").at("rule") == "agent-port");
    CHECK(said.at("tcp:81.2.69.10:9000").at("origin") == json({{"kind", "route"},
                                                               {"text", "81.2.69.0/24"},
                                                               {"name", "a route of the machine's own"},
                                                               {"device", "eth0"},
                                                               {"table", 254}}));
    CHECK(said.at("tcp:81.2.69.2:9000").at("origin").at("kind") == "address");
    CHECK(said.at("tcp:81.2.69.2:9000").at("origin").at("device") == "eth0");
    CHECK(said.at("tcp:81.2.69.2:9000").at("remedy").get<std::string>().find("caged") != std::string::npos);
    CHECK(said.at("tcp:240.0.0.1:9000").at("remedy").get<std::string>().find("cannot be allowed") !=
          std::string::npos);

    a_cage caged("--caged", "ibis");
    words reachable = targets;
    reachable.resize(reachable.size() - 2); // nobody is at the last two, which are refused only when sealed
    const auto open = caged.agree(reachable);
    CHECK(open.at("tcp:81.2.69.10:9000").at("allowed") == true);
    CHECK(open.at("tcp:100.64.0.1:7387").at("allowed") == false);
}

TEST_CASE("a route that has just come is in the answer as it is in the attempt, and gone when it goes") {
    a_cage sealed("--sealed", "crane");
    const words asked{"tcp:93.184.216.34:9000", "udp:93.184.216.34:9000", "ping:93.184.216.34"};
    CHECK(sealed.agree(asked).at(asked[0]).at("allowed") == true);
    here().net().run("mesh", "ip address replace 93.184.216.34/32 dev lo");
    here().net().run("machine", "ip route replace 93.184.216.0/24 via 100.64.0.2");
    const auto closed = sealed.agree(asked); // at once, whichever wall it is
    CHECK(closed.at(asked[0]).at("allowed") == false);
    CHECK(closed.at(asked[0]).at("rule") == "route");
    CHECK(closed.at(asked[0]).at("origin").at("device") == "mesh0");
    CHECK(closed.at(asked[0]).at("origin").at("via") == "100.64.0.2");
    CHECK(eventually([&] { return here().ask({"why", "crane", asked[0]}).at("wall") == "guards"; }));
    sealed.agree(asked);
    here().net().run("machine", "ip route delete 93.184.216.0/24");
    here().net().run("mesh", "ip address delete 93.184.216.34/32 dev lo");
    CHECK(eventually([&] { return here().ask({"why", "crane", asked[0]}).at("allowed") == true; }));
    sealed.agree(asked);
}

TEST_CASE("what only the relay refuses is on record too, with its wall and its rule") {
    a_cage sealed("--sealed", "stork");
    sealed.agree({"ping:192.168.1.10", "ping:100.64.0.2"});
    const cli_result listed = here().run({"--json", "denials", "stork"});
    CAPTURE(listed.out);
    std::map<std::string, json> by_address;
    std::istringstream lines(listed.out);
    for (std::string line; std::getline(lines, line);) {
        const json one = json::parse(line, nullptr, false);
        if (one.is_object() && one.value("wall", "") == "relay") by_address[one.value("address", "")] = one;
    }
    REQUIRE(by_address.contains("192.168.1.10"));
    CHECK(by_address["192.168.1.10"].at("rule") == "private");
    CHECK(by_address["192.168.1.10"].at("protocol") == "icmp");
    CHECK(by_address["192.168.1.10"].at("act") == "send");
    CHECK(by_address["100.64.0.2"].at("rule") == "shared");
    CHECK(here().ask({"inspect", "stork"}).at("denials").get<int>() >= 2);
}

TEST_CASE("a name, and what is no address, is refused with what to write instead") {
    a_cage sealed("--sealed", "egret");
    for (const char* wrong : {"tcp:example.com:80", "tcp:192.168.1.1", "192.168.1.1:80", "tcp:010.1:80",
                              "tcp:[fe80::1%eth0]:80", "udp:1.2.3.4:0", "ping:1.2.3.4:80"}) {
        const cli_result refused = here().run({"why", "egret", wrong});
        INFO(wrong << ": " << refused.err);
        CHECK(refused.status == 1);
        CHECK(refused.err.find("target: ") != std::string::npos);
    }
    CHECK(here().run({"why", "nobody", "tcp:1.2.3.4:80"}).status == 1);
    CHECK(here().ask({"why", "--sealed", "tcp:10.0.0.1:80"}).at("allowed") == false);
    CHECK(here().ask({"why", "--caged", "tcp:10.0.0.1:80"}).at("allowed") == true);
}

} // namespace
} // namespace pinfold::test
