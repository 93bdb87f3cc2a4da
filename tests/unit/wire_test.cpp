#include "support/catch.hpp"
#include "wire/channel.hpp"
#include "wire/codec.hpp"

#include <array>
#include <fcntl.h>
#include <random>
#include <sys/socket.h>
#include <sys/stat.h>

namespace pinfold::wire {
namespace {

cage_spec example_spec() {
    cage_spec spec{.name = "heron", .mode = cage_mode::caged, .project = "/home/me/project", .image = "host"};
    spec.limits = {.memory_bytes = 1u << 30, .swap_bytes = 7, .cpu_percent = 150, .processes = 99};
    spec.command = {.argv = {"sh", "-c", ""},
                    .environment = {"A=b"},
                    .directory = "/",
                    .terminal = terminal_size{40, 120}};
    spec.binds = {{"/a", "/b", true}};
    spec.search_domains = {"lan"};
    spec.keep_files = true;
    return spec;
}

message through(const message& what) {
    auto decoded = decode(encode(what));
    REQUIRE(decoded.has_value());
    return std::move(*decoded);
}

TEST_CASE("a spec arrives as it was sent") {
    const message arrived = through({.number = 42, .body = make{example_spec()}});
    CHECK(arrived.number == 42);
    CHECK(std::get<make>(arrived.body).spec == example_spec());
    CHECK(std::get<make>(through({.body = make{}}).body).spec == cage_spec{});
}

TEST_CASE("every kind of message arrives with its fields") {
    CHECK(std::get<hello>(through({.body = hello{.version = 3, .denials = true}}).body).denials);
    CHECK(std::get<ended>(
              through({.body = ended{.cage = 1, .process = 2, .status = -5, .memory_kill = true}}).body)
              .status == -5);
    CHECK(std::get<failed>(through({.body = failed{.text = "why", .exit_code = 127}}).body).exit_code == 127);
    CHECK(std::get<cages>(through({.body = cages{{cage_state{.name = "a"}, cage_state{.name = "b"}}}}).body)
              .list.at(1)
              .name == "b");
    CHECK(std::get<facts>(through({.body = facts{{{"kernel", "6.1", true}}}}).body).list.at(0).good);
    pinfold_denial denial{.time_ns = 5, .cage = 6, .port = 7387};
    denial.address[15] = 9;
    denial.comm[0] = 'x';
    const auto arrived = std::get<denials>(through({.body = denials{.list = {denial}, .lost = 3}}).body);
    CHECK(arrived.lost == 3);
    CHECK(arrived.list.at(0).address[15] == 9);
    CHECK(arrived.list.at(0).comm[0] == 'x');
    CHECK(std::get<claim>(through({.body = claim{.cage = 7}}).body).cage == 7);
    CHECK(std::holds_alternative<facts_request>(through({.body = facts_request{}}).body));
}

TEST_CASE("a message that ends anywhere too early is a problem, and so is one byte too much") {
    std::vector<std::byte> bytes = encode({.number = 1, .body = make{example_spec()}});
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        CAPTURE(size);
        CHECK_FALSE(decode(std::span(bytes).first(size)).has_value());
    }
    CHECK(decode(bytes).has_value());
    bytes.push_back(std::byte{0});
    CHECK_FALSE(decode(bytes).has_value());
}

TEST_CASE("no changed byte makes the decoder do anything but decode or refuse") {
    const std::vector<std::byte> good = encode({.number = 1, .body = make{example_spec()}});
    std::mt19937 random(20261130);
    std::size_t refused = 0;
    for (int round = 0; round < 20'000; ++round) {
        std::vector<std::byte> bytes = good;
        for (int changes = 0; changes < 3; ++changes)
            bytes[random() % bytes.size()] = static_cast<std::byte>(random());
        if (!decode(bytes)) ++refused;
    }
    CHECK(refused > 1000); // the twin of "or decode": most damage is seen
}

TEST_CASE("a count that no message could hold is refused before anything is allocated") {
    std::vector<std::byte> bytes = encode({.body = plan_text{{"a"}}});
    for (std::size_t i = 8; i < 12; ++i) bytes[i] = std::byte{0xff}; // the count behind kind and number
    const auto decoded = decode(bytes);
    REQUIRE_FALSE(decoded.has_value());
    CHECK(decoded.error().text() == "message: a list is longer than its message");
}

TEST_CASE("a message that is too long to send is refused by its sender") {
    message big{.body = make{example_spec()}};
    std::get<make>(big.body).spec.command.argv.assign(10, std::string(20'000, 'x'));
    CHECK_THROWS_AS(encode(big), failure);
}

struct pair {
    pair() {
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0);
        one = channel(unique_fd(ends[0]));
        other = channel(unique_fd(ends[1]));
    }
    channel one{unique_fd()};
    channel other{unique_fd()};
};

TEST_CASE("file descriptors arrive beside their message, closed on exec") {
    pair channels;
    message sent{.number = 7, .body = ok{}};
    sent.fds.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    sent.fds.emplace_back(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
    channels.one.send(sent);
    auto received = channels.other.receive(true);
    REQUIRE(received.has_value());
    auto& arrived = std::get<message>(*received);
    REQUIRE(arrived.fds.size() == 2);
    CHECK((::fcntl(arrived.fds[0].get(), F_GETFD) & FD_CLOEXEC) != 0);
    struct stat seen{};
    REQUIRE(::fstat(arrived.fds[1].get(), &seen) == 0);
    CHECK(S_ISCHR(seen.st_mode));
}

TEST_CASE("garbage is a problem, silence is nothing yet, and a closed peer is closed") {
    pair channels;
    CHECK(std::holds_alternative<channel::nothing_yet>(channels.other.receive(false).value()));
    REQUIRE(::send(channels.one.fd(), "garbage!", 8, 0) == 8);
    CHECK_FALSE(channels.other.receive(true).has_value());
    channels.one = channel(unique_fd());
    CHECK(std::holds_alternative<channel::closed>(channels.other.receive(true).value()));
}

TEST_CASE("the kernel says who is connected") {
    pair channels;
    CHECK(channels.one.who().uid == ::getuid());
    CHECK(channels.one.who().pid == ::getpid());
}

} // namespace
} // namespace pinfold::wire
