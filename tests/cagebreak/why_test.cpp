// What `pinfold why` says of the guards and what the guards do never differ: random destinations, each tried in the guards'
// world, in each mode, before and after routes have come.
#include "cage/guards.hpp"
#include "cage/verdict.hpp"
#include "cagebreak/guard_world.hpp"
#include "spec/cage_spec.hpp"

#include <pinfold/denial.h>
#include <pinfold/policy.h>
#include <random>
#include <sys/mman.h>

using namespace pinfold;
using namespace pinfold::test;

namespace {

constexpr std::uint64_t cage_id = 0x77;

enum class act : std::uint8_t { tcp, udp_connect, udp_send };

struct attempt {
    act kind = act::tcp;
    bool mapped = false; // an IPv4 address on an IPv6 socket
    local_prefix to;
    std::uint16_t port = 0;
};

// What every draw begins with: each kind of range, what lies beside it, the public internet, the cage's own.
constexpr std::array first4{0x00000000U, 0x0a010203U, 0x64400007U, 0x643fffffU, 0x7f000001U,
                            0xa9fea9feU, 0xac100009U, 0xac200001U, 0xc0000001U, 0xc0000002U,
                            0xc0000003U, 0xc000004dU, 0xc0a80101U, 0xc6120001U, 0xc6336407U,
                            0x5db8d822U, 0xe00000fbU, 0xf0000001U, 0xffffffffU, 0x51024502U};
constexpr std::array<std::array<std::uint32_t, 4>, 18> first6{{{0, 0, 0, 0},
                                                               {0, 0, 0, 1},
                                                               {0, 0, 0, 0x0a000001},
                                                               {0, 0, 0xffff, 0x0a000001},
                                                               {0, 0, 0xffff0000, 0x0a000001},
                                                               {0x0064ff9b, 0, 0, 0x0a010203},
                                                               {0x0064ff9b, 0, 0, 0x5db8d822},
                                                               {0x0064ff9b, 0x00010000, 0, 1},
                                                               {0x01000000, 0, 0, 1},
                                                               {0x20010000, 0, 0, 1},
                                                               {0x20020a00, 0, 0, 1},
                                                               {0x26064700, 0x47000000, 0, 0x1111},
                                                               {0x26064700, 0, 0x00005efe, 0x0a010203},
                                                               {0xfd5eca9e, 0x00010000, 0, 2},
                                                               {0xfd5eca9e, 0x00010000, 0, 1},
                                                               {0xfd000001, 0, 0, 5},
                                                               {0xfec00000, 0, 0, 5},
                                                               {0x2a0204f8, 0x00770001, 0, 5}}};

class draw {
public:
    explicit draw(unsigned seed) : random_(seed) {}
    [[nodiscard]] unsigned below(unsigned limit) { return static_cast<unsigned>(random_() % limit); }

    [[nodiscard]] attempt next() {
        attempt made{.kind = act{static_cast<std::uint8_t>(below(3))}, .mapped = below(4) == 0};
        made.port = below(3) == 0 ? std::uint16_t{7387} : static_cast<std::uint16_t>(1 + below(65535));
        const bool v4 = below(2) == 0;
        std::array<std::uint32_t, 4> words{};
        if (v4)
            words[0] = below(5) == 0 ? static_cast<std::uint32_t>(random_())
                                     : first4[below(first4.size())] + below(2);
        else
            words = first6[below(first6.size())];
        if (!v4 && below(3) == 0) words[3] = static_cast<std::uint32_t>(random_());
        made.to.family = v4 ? AF_INET : AF_INET6;
        made.to.length = v4 ? 32 : 128;
        for (std::uint32_t& word : words) word = htonl(word);
        std::memcpy(static_cast<void*>(made.to.address), words.data(), v4 ? 4 : 16);
        made.mapped = made.mapped && v4;
        return made;
    }

private:
    std::mt19937 random_;
};

address socket_address(const attempt& what) {
    address made;
    if (what.to.family == AF_INET && !what.mapped) {
        auto& in = reinterpret_cast<sockaddr_in&>(made.storage);
        in.sin_family = AF_INET;
        in.sin_port = htons(what.port);
        std::memcpy(&in.sin_addr, static_cast<const void*>(what.to.address), 4);
        made.size = sizeof in;
        return made;
    }
    auto& in6 = reinterpret_cast<sockaddr_in6&>(made.storage);
    in6.sin6_family = AF_INET6;
    in6.sin6_port = htons(what.port);
    if (what.mapped) {
        in6.sin6_addr.s6_addr[10] = in6.sin6_addr.s6_addr[11] = 0xff;
        std::memcpy(&in6.sin6_addr.s6_addr[12], static_cast<const void*>(what.to.address), 4);
    } else {
        std::memcpy(&in6.sin6_addr, static_cast<const void*>(what.to.address), 16);
    }
    made.size = sizeof in6;
    return made;
}

// The errno of it, 0 = begun or done. Nothing here may throw: it runs in a forked child.
int try_it(const attempt& what) {
    const address to = socket_address(what);
    const int type = what.kind == act::tcp ? SOCK_STREAM : SOCK_DGRAM;
    const unique_fd socket(::socket(to.storage.ss_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket) return errno;
    const ssize_t result = what.kind == act::udp_send ? ::sendto(socket.get(), "x", 1, 0, to.get(), to.size)
                                                      : ::connect(socket.get(), to.get(), to.size);
    return result >= 0 || errno == EINPROGRESS ? 0 : errno;
}

// Shared with the child that tries.
class results {
public:
    explicit results(std::size_t count) : count_(count) {
        void* memory = ::mmap(nullptr, count * sizeof(int), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) fail_errno(errno, "map memory for the results");
        errors_ = static_cast<int*>(memory);
    }
    results(const results&) = delete;
    results& operator=(const results&) = delete;
    ~results() { ::munmap(errors_, count_ * sizeof(int)); }
    [[nodiscard]] int& operator[](std::size_t i) { return errors_[i]; }

private:
    std::size_t count_;
    int* errors_;
};

class guarded {
public:
    guarded() : guards_(pins_.path(), anchor_.fd()) {
        guards_.attach(guard::destinations, cgroup_.fd(),
                       cage_id); // alone, so that sockets can be made without a policy
    }
    guarded(const guarded&) = delete;
    guarded& operator=(const guarded&) = delete;
    ~guarded() { guards_.detach(cage_id); }

    [[nodiscard]] guards& all() { return guards_; }
    [[nodiscard]] const scratch_cgroup& cgroup() const { return cgroup_; }

    // Tries them one after the other, and compares each with what is said of it; how many were refused.
    std::size_t agree(const std::vector<attempt>& attempts) {
        results errors(attempts.size());
        run_in(cgroup_, sinks_.space(), [&] {
            for (std::size_t i = 0; i < attempts.size(); ++i) errors[i] = try_it(attempts[i]);
            return 0;
        });
        std::vector<pinfold_denial> denials;
        guards_.take_denials([&](const pinfold_denial& one) { denials.push_back(one); });
        const std::uint32_t mode = guards_.mode_of(cgroup_.fd());
        std::size_t refused = 0;
        for (std::size_t i = 0; i < attempts.size(); ++i) {
            const attempt& what = attempts[i];
            const guard_answer said = ask_guards(
                guards_,
                {.mode = mode, .address = what.to, .stream = what.kind == act::tcp, .port = what.port});
            INFO(socket_address(what).text() << " act " << static_cast<int>(what.kind) << " mode " << mode
                                             << " errno " << errors[i] << " said rule " << said.rule);
            if (said.rule == PINFOLD_RULE_NONE) {
                CHECK(errors[i] != EACCES);
                continue;
            }
            REQUIRE(refused < denials.size());
            const pinfold_denial& denial = denials[refused++];
            CHECK(errors[i] == EACCES);
            CHECK(denial.rule == said.rule);
            CHECK(denial.port == what.port);
            const bool by_trie = said.rule == PINFOLD_RULE_MACHINE || said.rule == PINFOLD_RULE_ROUTE;
            CHECK((said.prefix.family != 0) == by_trie);
        }
        CHECK(refused == denials.size());
        CHECK(guards_.denials_lost() == 0);
        return refused;
    }

private:
    scratch_pins pins_;
    scratch_cgroup anchor_;
    scratch_cgroup cgroup_;
    sinks sinks_;
    guards guards_;
};

std::vector<attempt> draw_some(unsigned seed, int count) {
    draw random(seed);
    std::vector<attempt> all;
    for (int i = 0; i < count; ++i) all.push_back(random.next());
    return all;
}

local_prefix prefix(const char* text, std::uint8_t length, bool machine = false) {
    const address parsed = at(text, 0);
    local_prefix made{
        .family = static_cast<std::uint8_t>(parsed.storage.ss_family), .length = length, .machine = machine};
    if (made.family == AF_INET)
        std::memcpy(static_cast<void*>(made.address),
                    &reinterpret_cast<const sockaddr_in&>(parsed.storage).sin_addr, 4);
    else
        std::memcpy(static_cast<void*>(made.address),
                    &reinterpret_cast<const sockaddr_in6&>(parsed.storage).sin6_addr, 16);
    return made;
}

const std::vector<local_prefix> routes_that_come{
    prefix("198.51.100.0", 24),    prefix("93.184.216.34", 32, true), prefix("81.2.69.0", 24),
    prefix("81.2.69.2", 32, true), prefix("2606:4700::", 28),         prefix("2a02:4f8::", 32),
    prefix("128.0.0.0", 3)};

// Few enough at a time that the ring holds all their denials.
constexpr int batch = 600;

} // namespace

TEST_CASE(
    "what is said of the guards and what they do never differ, in each mode, also when routes come and go") {
    guarded world;
    for (unsigned seed = 1; seed <= 3; ++seed) {
        const std::vector<attempt> attempts = draw_some(seed, batch);
        CHECK(world.agree(attempts) == attempts.size()); // no policy: all of it is refused
    }
    for (const cage_mode mode : {cage_mode::sealed, cage_mode::caged}) {
        world.all().write_policy(world.cgroup().fd(), cage_id, mode);
        for (unsigned seed = 10; seed < 16; ++seed) {
            const std::vector<attempt> attempts = draw_some(seed, batch);
            const std::size_t before = world.agree(attempts);
            CHECK(before > 0);
            CHECK(before < attempts.size());
            world.all().set_local_prefixes(routes_that_come);
            const std::size_t with_routes = world.agree(attempts);
            CHECK((mode == cage_mode::sealed ? with_routes > before : with_routes == before));
            world.all().set_local_prefixes({});
            CHECK(world.agree(attempts) == before);
        }
    }
}

TEST_CASE("the prefix that is named is the longest that holds the address, and it goes when the route goes") {
    guarded world;
    world.all().write_policy(world.cgroup().fd(), cage_id, cage_mode::sealed);
    const guard_question question{
        .mode = PINFOLD_SEALED, .address = prefix("81.2.69.2", 32), .stream = true, .port = 80};
    CHECK(ask_guards(world.all(), question).rule == PINFOLD_RULE_NONE);
    world.all().set_local_prefixes(routes_that_come);
    const guard_answer own = ask_guards(world.all(), question);
    CHECK(own.rule == PINFOLD_RULE_MACHINE);
    CHECK(own.prefix.length == 32);
    const guard_answer beside = ask_guards(world.all(),
                                           {.mode = PINFOLD_SEALED, .address = prefix("81.2.69.3", 32)});
    CHECK(beside.rule == PINFOLD_RULE_ROUTE);
    CHECK(beside.prefix == prefix("81.2.69.0", 24));
    // A translated address is held by the prefix of the IPv4 address inside.
    const guard_answer inside = ask_guards(
        world.all(), {.mode = PINFOLD_SEALED, .address = prefix("64:ff9b::81.2.69.3", 128)});
    CHECK(inside.prefix == prefix("81.2.69.0", 24));
    world.all().set_local_prefixes({});
    CHECK(ask_guards(world.all(), question).rule == PINFOLD_RULE_NONE);
}
