// The guards by themselves: which destinations, sockets and options they refuse, and that nothing arrives.
#include "cage/guards.hpp"
#include "cagebreak/counted.hpp"
#include "cagebreak/guard_world.hpp"
#include "cagebreak/left_out.hpp"
#include "spec/cage_spec.hpp"

#include <atomic>
#include <linux/in6.h>
#include <optional>
#include <pinfold/denial.h>
#include <stdexcept>

using namespace pinfold;
using namespace pinfold::test;

namespace {

constexpr std::uint64_t cage_id = 0x7;

// A cage's cgroup with some of the guards on it.
class guarded {
public:
    explicit guarded(const std::vector<guard>& which = {all_guards.begin(), all_guards.end()})
        : guards_(pins_.path(), anchor_.fd()) {
        for (const guard one : which)
            if (!left_out::is(one)) guards_.attach(one, cgroup_.fd(), cage_id);
        left_out::from_guards(pins_.path(), cage_id);
    }
    guarded(const guarded&) = delete;
    guarded& operator=(const guarded&) = delete;
    ~guarded() { guards_.detach(cage_id); }

    guarded& in(cage_mode mode) {
        guards_.write_policy(cgroup_.fd(), cage_id, mode);
        return *this;
    }
    int run(const std::function<int()>& act, pid_t* pid = nullptr) {
        return run_in(cgroup_, sinks_.space(), act, pid);
    }
    [[nodiscard]] std::size_t arrived() { return sinks_.arrived(); }
    [[nodiscard]] guards& all() { return guards_; }
    [[nodiscard]] const scratch_cgroup& cgroup() const { return cgroup_; }
    [[nodiscard]] const unique_fd& space() const { return sinks_.space(); }
    [[nodiscard]] const scratch_pins& pins() const { return pins_; }
    std::vector<pinfold_denial> denials() {
        std::vector<pinfold_denial> all;
        guards_.take_denials([&](const pinfold_denial& denial) { all.push_back(denial); });
        return all;
    }

private:
    scratch_pins pins_;
    scratch_cgroup anchor_;
    scratch_cgroup cgroup_;
    sinks sinks_;
    guards guards_;
};

// One of every class of local address; the public ones come after.
const std::vector<std::string> local_hosts{
    "10.1.2.3",         "100.64.0.7",    "169.254.169.254", "172.16.0.9",   "192.0.0.77",
    "192.168.1.1",      "198.18.0.1",    "fd00:1::5",       "fec0::5",      "64:ff9b::10.1.2.3",
    "2001::1",          "2002:a00:1::1", "100::1",          "64:ff9b:1::1", "2606:4700::5efe:10.1.2.3",
    "::ffff:0:10.1.2.3"};
const std::vector<std::string> public_hosts{"93.184.216.34", "2606:4700:4700::1111",
                                            "64:ff9b::93.184.216.34"};

std::string own_comm() {
    std::ifstream file("/proc/self/comm");
    std::string name;
    std::getline(file, name);
    return name;
}

} // namespace

TEST_CASE("no way of sending takes a byte of a sealed cage to a local address") {
    guarded sealed;
    sealed.in(cage_mode::sealed);
    const scratch_cgroup nowhere; // the mutation: the same act without a guard
    for (const named_way& way : ways) {
        for (const std::string& host : local_hosts) {
            CAPTURE(way.name, host);
            const auto act = [&] { return way.send(host, sink_port); };
            CHECK(sealed.run(act) == EACCES);
            CHECK(sealed.arrived() == 0);
            count_act(false, "guards", way.name + (" " + host));
            CHECK(run_in(nowhere, sealed.space(), act) == 0);
            CHECK(sealed.arrived() >= 1);
        }
        for (const std::string& host : public_hosts) { // the positive twin
            CAPTURE(way.name, host);
            CHECK(sealed.run([&] { return way.send(host, sink_port); }) == 0);
            CHECK(sealed.arrived() >= 1);
            count_act(true, "guards", way.name + (" " + host));
        }
    }
}

TEST_CASE("a caged cage reaches local addresses, and in no mode what is nobody's") {
    guarded cage;
    for (const named_way& way : ways) {
        cage.in(cage_mode::caged);
        for (const std::string& host : local_hosts) {
            CAPTURE(way.name, host);
            CHECK(cage.run([&] { return way.send(host, sink_port); }) == 0);
            CHECK(cage.arrived() >= 1);
        }
        for (const char* host : {"0.1.2.3", "240.0.0.1", "192.0.0.3", "224.0.0.251", "64:ff9b::127.0.0.1",
                                 "::7f00:1", "ff0e::1", "fe80::10", "fd5e:ca9e:1::9"}) {
            CAPTURE(way.name, host);
            for (const cage_mode mode : {cage_mode::caged, cage_mode::sealed}) {
                CHECK(cage.in(mode).run([&] { return way.send(host, sink_port); }) == EACCES);
                CHECK(cage.arrived() == 0);
            }
        }
    }
}

TEST_CASE("a cage's own loopback and address are open to it in every mode") {
    guarded cage;
    for (const cage_mode mode : {cage_mode::caged, cage_mode::sealed}) {
        cage.in(mode);
        for (const named_way& way : ways) {
            for (const char* host :
                 {"127.0.0.1", "127.9.9.9", "0.0.0.0", "192.0.0.2", "::1", "::", "fd5e:ca9e:1::2"}) {
                CAPTURE(way.name, host);
                CHECK(cage.run([&] { return way.send(host, sink_port); }) == 0);
                CHECK(cage.arrived() >= 1);
            }
        }
        for (const char* host : {"192.0.0.1", "fd5e:ca9e:1::1"}) { // the gateway, where the relay decides
            CHECK(cage.run([&] { return ways.front().send(host, sink_port); }) == 0);
            CHECK(cage.arrived() == 1);
        }
    }
}

TEST_CASE("the agents' port is closed for TCP at every address but the cage's own") {
    guarded cage;
    const scratch_cgroup nowhere;
    for (const cage_mode mode : {cage_mode::caged, cage_mode::sealed}) {
        cage.in(mode);
        for (const named_way& way : ways) {
            for (const char* host :
                 {"93.184.216.34", "2606:4700:4700::1111", "192.0.0.1", "fd5e:ca9e:1::1"}) {
                CAPTURE(way.name, host);
                const auto act = [&] { return way.send(host, agent_port); };
                CHECK(cage.run(act) == (way.tcp ? EACCES : 0));
                CHECK((cage.arrived() == 0) == way.tcp);
                CHECK(run_in(nowhere, cage.space(), act) == 0);
                CHECK(cage.arrived() >= 1);
            }
            CHECK(cage.run([&] { return way.send("127.0.0.1", agent_port); }) == 0);
            CHECK(cage.arrived() >= 1);
        }
    }
}

TEST_CASE("without a policy a guard refuses everything, also the own loopback") {
    guarded cage({guard::destinations}); // alone: with the socket guard no socket would exist
    for (const named_way& way : ways) {
        for (const char* host : {"93.184.216.34", "2606:4700:4700::1111", "10.1.2.3", "127.0.0.1", "::1"}) {
            CAPTURE(way.name, host);
            CHECK(cage.run([&] { return way.send(host, sink_port); }) == EACCES);
        }
    }
    CHECK(cage.arrived() == 0);
    CHECK(cage.in(cage_mode::caged).run([] { return ways.front().send("127.0.0.1", sink_port); }) == 0);
    CHECK(cage.arrived() == 1);

    guarded other({guard::sockets});
    const auto make = [] { return ::socket(AF_INET, SOCK_STREAM, 0) < 0 ? errno : 0; };
    CHECK(other.run(make) == EACCES);
    CHECK(other.in(cage_mode::sealed).run(make) == 0);
}

TEST_CASE("a policy cannot be written before a guard is attached") {
    const scratch_pins pins;
    const scratch_cgroup anchor;
    const scratch_cgroup cgroup;
    guards all(pins.path(), anchor.fd());
    try {
        all.write_policy(cgroup.fd(), cage_id, cage_mode::caged);
        FAIL("it was written");
    } catch (const std::system_error& error) {
        CHECK(error.code().value() == ENOENT);
    }
}

TEST_CASE("child cgroups are judged by the cage's policy, and a change of it counts at once") {
    guarded cage;
    const scratch_cgroup child(cage.cgroup().path());
    const scratch_cgroup grandchild(child.path());
    const auto act = [] { return ways.front().send("10.1.2.3", sink_port); };
    for (const scratch_cgroup* where : {&child, &grandchild}) {
        cage.in(cage_mode::sealed);
        CHECK(run_in(*where, cage.space(), act) == EACCES);
        CHECK(cage.arrived() == 0);
        cage.in(cage_mode::caged);
        CHECK(run_in(*where, cage.space(), act) == 0);
        CHECK(cage.arrived() == 1);
    }
}

TEST_CASE("a policy is changed as a whole: no program sees half of two") {
    guarded cage;
    constexpr std::uint64_t one = 0x1111111111111111, other = 0x2222222222222222;
    std::atomic<bool> stop = false;
    std::thread writer([&] {
        while (!stop) {
            cage.all().write_policy(cage.cgroup().fd(), one, cage_mode::sealed);
            cage.all().write_policy(cage.cgroup().fd(), other, cage_mode::caged);
        }
    });
    std::size_t denied = 0, torn = 0;
    for (int round = 0; round < 10; ++round) {
        run_in(cage.cgroup(), cage.space(), [] {
            for (int number = 0; number < 2000; ++number) ways[3].send("10.1.2.3", sink_port);
            return 0;
        });
        (void)cage.arrived();
        for (const pinfold_denial& denial : cage.denials()) {
            if (denial.rule == PINFOLD_RULE_NO_POLICY) continue; // before the first policy
            ++denied;
            if (denial.cage != one) ++torn; // refused by the mode of one, recorded with the cage of the other
        }
    }
    stop = true;
    writer.join();
    CHECK(torn == 0);
    CHECK(denied > 0);
    CHECK(denied < 20000); // both policies were in force at times
}

TEST_CASE("two cages with the same programs have policies of their own") {
    guarded first;
    const scratch_cgroup second;
    for (const guard one : all_guards) first.all().attach(one, second.fd(), 8);
    first.in(cage_mode::sealed);
    first.all().write_policy(second.fd(), 8, cage_mode::caged);
    const auto act = [] { return ways.front().send("10.1.2.3", sink_port); };
    CHECK(first.run(act) == EACCES);
    CHECK(run_in(second, first.space(), act) == 0);
    CHECK(first.all().pinned() == std::vector<std::uint64_t>{cage_id, 8});
    first.all().detach(8);
    CHECK(first.all().pinned() == std::vector<std::uint64_t>{cage_id});
}

TEST_CASE("the machine's own addresses and routes are closed to a sealed cage, live and in every form") {
    guarded cage;
    cage.in(cage_mode::sealed);
    const auto reaches = [&](const char* host) {
        const int error = cage.run([&] { return ways[3].send(host, sink_port); });
        CHECK((error == 0 || error == EACCES));
        CHECK((cage.arrived() > 0) == (error == 0));
        return error == 0;
    };
    const auto prefix = [](const char* host, std::uint8_t length, bool machine) {
        const address parsed = at(host, 0);
        local_prefix made = {.family = static_cast<std::uint8_t>(parsed.storage.ss_family),
                             .length = length,
                             .machine = machine};
        if (made.family == AF_INET)
            std::memcpy(made.address, &reinterpret_cast<const sockaddr_in&>(parsed.storage).sin_addr, 4);
        else
            std::memcpy(made.address, &reinterpret_cast<const sockaddr_in6&>(parsed.storage).sin6_addr, 16);
        return made;
    };
    const std::vector<local_prefix> some{prefix("203.0.113.0", 24, false), prefix("203.0.113.9", 32, true),
                                         prefix("2001:db8:5::", 48, false)};
    CHECK(reaches("203.0.113.7"));
    cage.all().set_local_prefixes(some);
    for (const char* host :
         {"203.0.113.7", "203.0.113.9", "::ffff:203.0.113.7", "64:ff9b::203.0.113.7", "2001:db8:5::1"})
        CHECK_FALSE(reaches(host));
    for (const char* host : {"203.0.114.1", "203.0.112.255", "2001:db8:6::1", "93.184.216.34"})
        CHECK(reaches(host));
    const auto denials = cage.denials();
    REQUIRE(denials.size() == 5);
    CHECK(denials[0].rule == PINFOLD_RULE_ROUTE);
    CHECK(denials[1].rule == PINFOLD_RULE_MACHINE);
    CHECK(denials[4].rule == PINFOLD_RULE_ROUTE);

    cage.in(cage_mode::caged);
    CHECK(reaches("203.0.113.7"));
    cage.in(cage_mode::sealed);
    cage.all().set_local_prefixes(std::span(some).last(1));
    CHECK(reaches("203.0.113.7"));
    CHECK_FALSE(reaches("2001:db8:5::1"));
    cage.all().set_local_prefixes({});
    CHECK(reaches("2001:db8:5::1"));
}

TEST_CASE("a trie that is full is an error, and what was in it stays") {
    guarded cage;
    std::vector<local_prefix> many;
    for (std::uint32_t number = 0; number <= 1u << 18; ++number) {
        local_prefix prefix = {.family = AF_INET, .length = 32};
        const std::uint32_t word = htonl(0x5db80000u + number);
        std::memcpy(prefix.address, &word, sizeof word);
        many.push_back(prefix);
    }
    CHECK_THROWS_AS(cage.all().set_local_prefixes(many), std::system_error);
    CHECK(cage.in(cage_mode::sealed).run([] { return ways.front().send("93.184.0.0", sink_port); }) ==
          EACCES);
    CHECK(cage.arrived() == 0);
    many.pop_back();
    CHECK_NOTHROW(cage.all().set_local_prefixes(many));
    cage.all().set_local_prefixes({});
    CHECK(cage.run([] { return ways.front().send("93.184.0.0", sink_port); }) == 0);
}

TEST_CASE("the only internet sockets of a cage are TCP, UDP and ICMP echo") {
    struct kind {
        int family, type, protocol;
    };
    guarded cage;
    const scratch_cgroup nowhere;
    const auto make = [](const kind& one) {
        return [one] { return ::socket(one.family, one.type, one.protocol) < 0 ? errno : 0; };
    };
    for (const cage_mode mode : {cage_mode::caged, cage_mode::sealed}) {
        cage.in(mode);
        for (const kind& one : {kind{AF_INET, SOCK_RAW, IPPROTO_RAW},
                                {AF_INET, SOCK_RAW, IPPROTO_ICMP},
                                {AF_INET, SOCK_RAW, IPPROTO_UDP},
                                {AF_INET6, SOCK_RAW, IPPROTO_RAW},
                                {AF_INET6, SOCK_RAW, IPPROTO_ICMPV6},
                                {AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE},
                                {AF_INET6, SOCK_DGRAM, IPPROTO_UDPLITE},
                                {AF_INET, SOCK_STREAM, IPPROTO_SCTP},
                                {AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP},
                                {AF_INET, SOCK_STREAM, 262 /* MPTCP */},
                                {AF_INET6, SOCK_STREAM, 262}}) {
            CAPTURE(one.family, one.type, one.protocol);
            const int without = run_in(nowhere, cage.space(), make(one));
            if (without != 0) continue; // this kernel does not have the kind at all
            CHECK(cage.run(make(one)) == EACCES);
        }
        for (const kind& one : {kind{AF_INET, SOCK_STREAM, 0},
                                {AF_INET6, SOCK_STREAM, IPPROTO_TCP},
                                {AF_INET, SOCK_DGRAM, 0},
                                {AF_INET6, SOCK_DGRAM, IPPROTO_UDP},
                                {AF_INET, SOCK_DGRAM, IPPROTO_ICMP},
                                {AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6},
                                {AF_UNIX, SOCK_STREAM, 0},
                                {AF_NETLINK, SOCK_RAW, 0}}) {
            CAPTURE(one.family, one.type, one.protocol);
            CHECK(cage.run(make(one)) == 0);
        }
    }
}

TEST_CASE("a cage cannot give its packets a route of their own") {
    struct option {
        int family, level, name, size;
    };
    guarded cage;
    const scratch_cgroup nowhere;
    const auto set = [](const option& one) {
        return [one] {
            const unique_fd socket(::socket(one.family, SOCK_DGRAM, 0));
            unsigned char value[64] = {};
            value[0] = one.level == IPPROTO_IP ? 131 : 0; // loose source route
            value[1] = 7;
            value[2] = 4;
            return ::setsockopt(socket.get(), one.level, one.name, value, static_cast<socklen_t>(one.size)) <
                           0
                       ? errno
                       : 0;
        };
    };
    for (const cage_mode mode : {cage_mode::caged, cage_mode::sealed}) {
        cage.in(mode);
        for (const option& one : {option{AF_INET, IPPROTO_IP, IP_OPTIONS, 8},
                                  {AF_INET6, IPPROTO_IPV6, IPV6_RTHDR, 24},
                                  {AF_INET6, IPPROTO_IPV6, IPV6_HOPOPTS, 8},
                                  {AF_INET6, IPPROTO_IPV6, IPV6_DSTOPTS, 8},
                                  {AF_INET6, IPPROTO_IPV6, IPV6_RTHDRDSTOPTS, 8},
                                  {AF_INET6, IPPROTO_IPV6, IPV6_2292PKTOPTIONS, 24},
                                  {AF_INET6, IPPROTO_IPV6, IPV6_2292RTHDR, 24},
                                  {AF_INET6, IPPROTO_IPV6, IPV6_2292HOPOPTS, 8},
                                  {AF_INET6, IPPROTO_IPV6, IPV6_2292DSTOPTS, 8},
                                  {AF_INET6, IPPROTO_IPV6, IPV6_FLOWLABEL_MGR, 56}}) {
            CAPTURE(one.family, one.name);
            CHECK(cage.run(set(one)) == EACCES);
            CHECK(run_in(nowhere, cage.space(), set(one)) !=
                  EACCES); // whatever it answers to this made-up value
        }
        CHECK(cage.run(set({AF_INET, IPPROTO_IP, IP_OPTIONS, 0})) == 0); // clearing them is harmless
        CHECK(cage.run(set({AF_INET, SOL_SOCKET, SO_KEEPALIVE, 4})) == 0);
        CHECK(cage.run([] { // longer than a page: what a cgroup hook does not see whole
            const unique_fd socket(::socket(AF_INET, SOCK_DGRAM, 0));
            static const char value[8192] = {};
            return ::setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, value, sizeof value) < 0 ? errno : 0;
        }) == 0);
    }
}

TEST_CASE("a denial tells what was tried, by whom and why") {
    guarded cage;
    cage.in(cage_mode::sealed);
    pid_t pid = 0;
    REQUIRE(cage.run([] { return ways.front().send("10.1.2.3", 443); }, &pid) == EACCES);
    REQUIRE(cage.run([] { return ways[3].send("fd00:1::5", 53); }) == EACCES);
    REQUIRE(cage.run([] { return ::socket(AF_INET, SOCK_RAW, IPPROTO_ICMP) < 0 ? errno : 0; }) == EACCES);
    REQUIRE(cage.run([] {
        const unique_fd socket(::socket(AF_INET, SOCK_DGRAM, 0));
        return ::setsockopt(socket.get(), IPPROTO_IP, IP_OPTIONS, "\1\1\1", 4) < 0 ? errno : 0;
    }) == EACCES);
    REQUIRE(cage.run([] { return ways.front().send("93.184.216.34", agent_port); }) == EACCES);
    REQUIRE(cage.run([] { return ways.front().send("::ffff:10.1.2.3", 443); }) == EACCES);
    const auto all = cage.denials();
    REQUIRE(all.size() == 6);
    timespec now = {};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    const auto seconds = [](std::uint64_t ns) { return static_cast<std::int64_t>(ns / 1'000'000'000); };
    for (const pinfold_denial& denial : all) {
        CHECK(denial.cage == cage_id);
        CHECK(std::string(denial.comm) == own_comm());
        CHECK(now.tv_sec - seconds(denial.time_ns) < 30);
        CHECK(denial.reserved == 0);
    }
    CHECK(all[0].pid == static_cast<std::uint32_t>(pid));
    CHECK(all[0].act == PINFOLD_ACT_CONNECT);
    CHECK(all[0].rule == PINFOLD_RULE_PRIVATE);
    CHECK(all[0].family == AF_INET);
    CHECK(all[0].type == SOCK_STREAM);
    CHECK(all[0].protocol == IPPROTO_TCP);
    CHECK(all[0].port == 443);
    CHECK(std::memcmp(all[0].address, "\x0a\x01\x02\x03\0\0\0\0\0\0\0\0\0\0\0\0", 16) == 0);
    CHECK(all[1].act == PINFOLD_ACT_SEND);
    CHECK(all[1].family == AF_INET6);
    CHECK(all[1].protocol == IPPROTO_UDP);
    CHECK(all[1].port == 53);
    CHECK(std::memcmp(all[1].address, "\xfd\x00\x00\x01\0\0\0\0\0\0\0\0\0\0\0\x05", 16) == 0);
    CHECK(all[2].act == PINFOLD_ACT_SOCKET);
    CHECK(all[2].rule == PINFOLD_RULE_SOCKET_KIND);
    CHECK(all[2].type == SOCK_RAW);
    CHECK(all[2].protocol == IPPROTO_ICMP);
    CHECK(all[3].act == PINFOLD_ACT_OPTION);
    CHECK(all[3].rule == PINFOLD_RULE_SOURCE_ROUTE);
    CHECK(all[3].family == AF_INET);
    CHECK(all[3].protocol == IP_OPTIONS);
    CHECK(all[4].rule == PINFOLD_RULE_AGENT_PORT);
    CHECK(all[5].family == AF_INET); // v4-mapped
    CHECK(std::memcmp(all[5].address, all[0].address, 16) == 0);
}

TEST_CASE("a full ring refuses all the same, and counts what it could not hold") {
    guarded cage;
    cage.in(cage_mode::sealed);
    constexpr std::size_t tries = 5000;
    const int not_refused = cage.run([] {
        int others = 0;
        for (std::size_t number = 0; number < tries; ++number)
            if (ways[3].send("10.1.2.3", sink_port) != EACCES) ++others;
        return others == 0 ? 0 : 1;
    });
    CHECK(not_refused == 0);
    CHECK(cage.arrived() == 0);
    const std::size_t taken = cage.denials().size();
    CHECK(taken > 1000);
    CHECK(cage.all().denials_lost() > 0);
    CHECK(taken + cage.all().denials_lost() == tries);
    REQUIRE(cage.run([] { return ways[3].send("10.1.2.3", sink_port); }) == EACCES);
    CHECK(cage.denials().size() == 1);
}

TEST_CASE("an exception from the receiver of denials leaves the rest in the ring") {
    guarded cage;
    cage.in(cage_mode::sealed);
    for (int number = 0; number < 3; ++number)
        REQUIRE(cage.run([] { return ways[3].send("10.1.2.3", sink_port); }) == EACCES);
    CHECK_THROWS_AS(
        cage.all().take_denials([](const pinfold_denial&) { throw std::runtime_error("no room"); }),
        std::runtime_error);
    CHECK(cage.denials().size() == 2);
}
