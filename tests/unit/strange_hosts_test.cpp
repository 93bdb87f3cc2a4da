// Wherever a host is taken as text: it is parsed once, and what was judged is what is dialled.
#include "agent/proxy/cage_ask.hpp"
#include "agent/why_target.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <netinet/in.h>
#include <random>
#include <string>
#include <vector>

namespace pinfold {
namespace {

using namespace std::string_literals;

const std::vector<machine> mesh{{"laptop", "fd12::1"}, {"pi5", "fd12::7"}, {"old", "198.19.0.4"}};

// Each of them is the address of a machine of the mesh, or of one beside it, to one reader and something else to another.
const std::vector<std::string> strange{"fd12::7\0.evil.example"s,
                                       "evil.example\0fd12::7"s,
                                       "fd12::7%00",
                                       "fd12::7\r\nHost: x"s,
                                       "fd12::7\n",
                                       "fd12::7 ",
                                       " fd12::7",
                                       "fd12::7\t",
                                       "fd12::7.",
                                       "fd12::7%eth0",
                                       "fd12::7%25eth0",
                                       "fd12::7%2525eth0",
                                       "[fd12::7]",
                                       "[fd12::7",
                                       "fd12::7]",
                                       "fd12::7@evil.example",
                                       "evil.example@fd12::7",
                                       "user:pass@fd12::7",
                                       "fd12::7#evil",
                                       "fd12::7?evil",
                                       "fd12::7\\evil",
                                       "fd12::7/64",
                                       "fd12:::7",
                                       "fd12::7::",
                                       "fd12::00007",
                                       "fd12::g",
                                       "::ffff:198.19.0.4.",
                                       "198.19.0.4.",
                                       "198.19.0.4.evil.example",
                                       "198.19.0.04",
                                       "198.19.4",
                                       "198.1245188",
                                       "3323133956",
                                       "0xc6130004",
                                       "0306.023.0.4",
                                       "198.19.0.4\xe3\x80\x82",
                                       "\xef\xbc\x91\xef\xbc\x99\xef\xbc\x98.19.0.4",
                                       "198.19.0.4:7387",
                                       "*",
                                       "",
                                       ".",
                                       "..",
                                       "localhost",
                                       "xn--fd12",
                                       std::string(5000, '1'),
                                       "fd12::7,fd12::1",
                                       "fd12::7;",
                                       "'fd12::7'",
                                       "fd12::7%0d%0a"};

std::expected<cage_ask, proxy_refusal> ask_for(const std::string& host) {
    return judge_head({.method = "GET", .target = "/peer/" + host + "/v1/sessions"}, {.session = "w1"}, mesh);
}

bool is_of_the_mesh(const std::string& address) {
    return std::ranges::find(mesh, address, &machine::addr) != mesh.end();
}

TEST_CASE(
    "B21 a host with strange bytes is refused by whatever takes a host, and nothing is dialled for it") {
    for (const std::string& host : strange) {
        CAPTURE(host);
        const auto asked = ask_for(host);
        REQUIRE_FALSE(asked);
        CHECK((asked.error().status == 400 || asked.error().status == 403 || asked.error().status == 404));
        for (const std::string& form : {host, "[" + host + "]"})
            CHECK_FALSE(parse_why_target("tcp:" + form + ":443x"));
        CHECK_FALSE(parse_why_target("tcp:" + host + ":"));
    }
    for (const char* port :
         {"", "0", "-1", "+443", "65536", "65979", "443 ", " 443", "0x1bb", "443.0", "4e2", "99999999999"}) {
        CAPTURE(port);
        CHECK_FALSE(parse_why_target("tcp:93.184.216.34:"s + port));
    }
    for (const char* host :
         {"example.com", "93.184.216.34.", "93.184.216.034", "1572395042", "0x5db8d822", "[fe80::1%eth0]"}) {
        CAPTURE(host);
        CHECK_FALSE(parse_why_target("tcp:"s + host + ":443"));
    }
}

TEST_CASE("B21 what is asked for under an address is asked of exactly that machine, whatever bytes stand "
          "around it") {
    std::mt19937 random(21); // the same every time
    const std::string letters = "fd127:.[]%@/\\?#0 \t\r\n19845x"s + '\0' + "\xff";
    const auto any_of = [&random](std::size_t count) { return static_cast<std::size_t>(random() % count); };
    int taken = 0;
    for (int turn = 0; turn < 20'000; ++turn) {
        std::string host = mesh[any_of(mesh.size())].addr;
        for (std::size_t change = any_of(3); change > 0 && !host.empty(); --change) {
            const std::size_t at = any_of(host.size());
            const char letter = letters[any_of(letters.size())];
            if (random() % 2 == 0)
                host[at] = letter;
            else
                host.insert(at, 1, letter);
        }
        CAPTURE(host);
        const auto asked = ask_for(host);
        if (!asked) continue;
        ++taken;
        REQUIRE(is_of_the_mesh(asked->addr));
        // The plainest form of what was written is what is dialled.
        const std::string written = host.find(':') == std::string::npos ? host : "[" + host + "]";
        const auto same = parse_why_target("tcp:" + written + ":80");
        REQUIRE(same);
        const std::string plain = asked->addr.find(':') == std::string::npos ? asked->addr
                                                                             : "[" + asked->addr + "]";
        CHECK(same->text == "tcp:" + plain + ":80");
    }
    CHECK(taken > 1000); // a third of them was not changed at all
}

TEST_CASE("B21 ordinary hosts are taken in each of their forms") {
    for (const char* host : {"fd12::7", "FD12::7", "fd12:0:0:0:0:0:0:7", "fd12:0::0:7"}) {
        CAPTURE(host);
        const auto asked = ask_for(host);
        REQUIRE(asked);
        CHECK(asked->addr == "fd12::7");
        const auto why = parse_why_target("tcp:["s + host + "]:443");
        REQUIRE(why);
        CHECK(why->text == "tcp:[fd12::7]:443");
    }
    CHECK(ask_for("198.19.0.4").value().addr == "198.19.0.4");
    const auto mapped = parse_why_target("udp:[::ffff:93.184.216.34]:53");
    REQUIRE(mapped);
    CHECK(mapped->text == "udp:93.184.216.34:53"); // as a socket dials it
}

} // namespace
} // namespace pinfold
