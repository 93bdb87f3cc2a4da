#include "relay/sockets.hpp"
#include "spec/cage_spec.hpp"
#include "support/catch.hpp"

// 192.0.0.1 is nobody's address: what a cage sends there goes to the machine's resolvers, or nowhere.
namespace pinfold::test {

namespace {

const endpoint gateway = at("192.0.0.1", 53);

struct resolver_world {
    explicit resolver_world(std::vector<std::string> resolvers, cage_mode mode = cage_mode::caged)
        : relay(world, {{.mode = mode, .resolvers = std::move(resolvers)}}) {}
    relay_world world = [] {
        if (::geteuid() != 0) SKIP("root, to make namespaces and load the steering programs");
        return relay_world();
    }();
    relay_process relay;
};

void answer(const unique_fd& server, std::string_view with) {
    std::string query(1500, '\0');
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    const ssize_t got = ::recvfrom(server.get(), query.data(), query.size(), 0,
                                   reinterpret_cast<sockaddr*>(&from), &size);
    if (got < 2) return;
    const std::string text = query.substr(0, 2) + std::string(with);
    (void)::sendto(server.get(), text.data(), text.size(), 0, reinterpret_cast<const sockaddr*>(&from), size);
}

unique_fd ask(const resolver_world& it, std::string_view query) {
    unique_fd client = make_socket(it.relay.cage(), AF_INET, SOCK_DGRAM);
    REQUIRE(connect_to(client.get(), gateway) == 0); // so only an answer from the gateway is heard
    REQUIRE(say(client, query));
    return client;
}

} // namespace

TEST_CASE("a cage's queries reach the machine's stub resolver, and the gateway answers") {
    const resolver_world it({"127.0.0.53"});
    const unique_fd stub = bind_to(it.world.near(), SOCK_DGRAM, at("127.0.0.53", 53));
    const unique_fd client = ask(it, "1A question");
    REQUIRE(say(client, "2B question"));
    answer(stub, "first");
    answer(stub, "second");
    CHECK(hear(client) == "1Afirst");
    CHECK(hear(client) == "2Bsecond");
    CHECK(eventually([&] { return it.relay.figures().udp_flows == 0; }));
}

TEST_CASE("queries over TCP reach the resolver, too") {
    const resolver_world it({"127.0.0.53"});
    const unique_fd stub = bind_to(it.world.near(), SOCK_STREAM, at("127.0.0.53", 53));
    const both_ends ends = join(it.relay.cage(), stub, gateway);
    CHECK(say(ends.inside, "query"));
    CHECK(hear(ends.outside) == "query");
    CHECK(name_of(ends.inside.get(), ::getpeername) == gateway);
}

TEST_CASE("a resolver that refuses or keeps silent is passed over, and the next query begins with the one "
          "that answered") {
    const resolver_world it({"127.0.0.7", place::black_hole, place::lan4});
    const unique_fd third = bind_to(it.world.far(), SOCK_DGRAM, at(place::lan4, 53));
    const unique_fd client = ask(it, "1A question");
    answer(third, "answer"); // waits up to 5 s: the first refuses, the second is given 2 s
    CHECK(hear(client) == "1Aanswer");
    const auto begin = std::chrono::steady_clock::now();
    const unique_fd again = ask(it, "2B question");
    answer(third, "answer");
    CHECK(hear(again) == "2Banswer");
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(1));
    const unique_fd stream = bind_to(it.world.far(), SOCK_STREAM, at(place::lan4, 53));
    CHECK(join(it.relay.cage(), stream, gateway).outside);
}

TEST_CASE("when no resolver is there the query ends in an error") {
    const resolver_world it({"127.0.0.7", "127.0.0.8"});
    CHECK(hear(ask(it, "1A question")) == fmt::format("errno {}", ECONNREFUSED));
    CHECK(connect_to(make_socket(it.relay.cage(), AF_INET, SOCK_STREAM).get(), gateway) == ECONNREFUSED);
}

TEST_CASE("the gateway's other ports lead nowhere, though something listens at the resolver's") {
    const resolver_world it({"127.0.0.53"});
    const unique_fd tcp = bind_to(it.world.near(), SOCK_STREAM, at("127.0.0.53", 54));
    const unique_fd udp = bind_to(it.world.near(), SOCK_DGRAM, at("127.0.0.53", 54));
    const endpoint other = at("192.0.0.1", 54);
    CHECK(connect_to(make_socket(it.relay.cage(), AF_INET, SOCK_STREAM).get(), other) == ECONNREFUSED);
    const unique_fd client = make_socket(it.relay.cage(), AF_INET, SOCK_DGRAM);
    REQUIRE(connect_to(client.get(), other) == 0);
    CHECK(say(client, "x"));
    CHECK(hear(client) == fmt::format("errno {}", ECONNREFUSED));
    CHECK_FALSE(is_there(tcp, 50));
    CHECK_FALSE(is_there(udp, 50));
}

TEST_CASE("a sealed cage has no resolver at the gateway, even if it was given one") {
    const resolver_world it({"127.0.0.53"}, cage_mode::sealed);
    const unique_fd tcp = bind_to(it.world.near(), SOCK_STREAM, at("127.0.0.53", 53));
    const unique_fd udp = bind_to(it.world.near(), SOCK_DGRAM, at("127.0.0.53", 53));
    CHECK(connect_to(make_socket(it.relay.cage(), AF_INET, SOCK_STREAM).get(), gateway) == ECONNREFUSED);
    CHECK(hear(ask(it, "1A question")) == fmt::format("errno {}", ECONNREFUSED));
    CHECK_FALSE(is_there(tcp, 50));
    CHECK_FALSE(is_there(udp, 50));
}

TEST_CASE("the agent answers a port of the gateway itself, in cages that it is offered to") {
    const resolver_world it({});
    const unique_fd client = make_socket(it.relay.cage(), AF_INET, SOCK_STREAM);
    REQUIRE(connect_to(client.get(), at("192.0.0.1", 8080)) == 0);
    CHECK(hear_all(client, 100) == "agent\n");
    CHECK(hear(client).empty());
    const resolver_world sealed({}, cage_mode::sealed);
    CHECK(connect_to(make_socket(sealed.relay.cage(), AF_INET, SOCK_STREAM).get(), at("192.0.0.1", 8080)) ==
          ECONNREFUSED);
}

} // namespace pinfold::test
