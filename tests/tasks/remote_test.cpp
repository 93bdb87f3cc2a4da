// Askers on other machines: two addresses of a network namespace that has nothing but its loopback.
#include "support/catch.hpp"
#include "task_machine.hpp"

#include <arpa/inet.h>
#include <array>
#include <chrono>
#include <cstdint>
#include <exception>
#include <netinet/in.h>
#include <sched.h>
#include <thread>

using namespace pinfold;
using namespace pinfold::test;

namespace {

constexpr std::uint16_t agent_port = 7387;

sockaddr_in6 at(const char* address, std::uint16_t port) {
    sockaddr_in6 made{.sin6_family = AF_INET6, .sin6_port = htons(port)};
    ::inet_pton(AF_INET6, address, &made.sin6_addr);
    return made;
}

unique_fd bound(const char* address, std::uint16_t port) {
    unique_fd made(check(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), "make a socket"));
    const int on = 1;
    ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const sockaddr_in6 where = at(address, port);
    check(::bind(made.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where), "bind to {}", address);
    return made;
}

// A request of the machine pi5, as its agent or one of its programs sends it.
answered from_pi5(const std::string& path, const json& body, const std::string& caged = "") {
    const unique_fd connection = bound("fd12::7", 0);
    const sockaddr_in6 to = at("fd12::1", agent_port);
    check(::connect(connection.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to),
          "connect to fd12::1");
    const std::string text = body.dump();
    send_text(connection, fmt::format("POST {} HTTP/1.1\r\nHost: [fd12::1]:7387\r\nConnection: close\r\n{}"
                                      "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
                                      path, caged.empty() ? "" : "X-Shrooms-Caged: " + caged + "\r\n",
                                      text.size(), text));
    return parse_answer(receive_all(connection, std::chrono::seconds(30)));
}

// The agent of pi5, which takes one message.
std::string take_note(const unique_fd& listener) {
    pollfd ready{listener.get(), POLLIN, 0};
    if (::poll(&ready, 1, 30'000 * time_scale()) <= 0) return "no note came";
    const unique_fd connection(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::string all;
    std::array<char, 65536> buffer{};
    while (all.find("\"text\"") == std::string::npos) {
        const ssize_t got = ::recv(connection.get(), buffer.data(), buffer.size(), 0);
        if (got <= 0) return all;
        all.append(buffer.data(), static_cast<std::size_t>(got));
    }
    send_text(connection, "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    return all;
}

void ask_from_elsewhere() {
    task_machine with(std::chrono::minutes(10), "fd12::1");
    REQUIRE(with.make().status == 201);
    // It says that it is the laptop, and is not believed.
    json ask = rpc("SendMessage", message("m-1", "work", {{"shrooms/from", "laptop/jimmy"}}));
    json task = from_pi5("/a2a/heron", ask).body["result"]["task"];
    INFO(task.dump());
    CHECK(task["metadata"]["shrooms/from"] == "pi5 (pi5/jimmy)");
    REQUIRE(says(with.out(), "[shrooms task heron:m-1 from pi5 (pi5/jimmy)]\nwork"));
    REQUIRE(with.becomes("heron:m-1", "WORKING"));
    CHECK(from_pi5("/v1/tasks/heron:m-1", {{"state", "done"}, {"summary", "forged"}}).status == 403);
    CHECK(with.state("heron:m-1") == "TASK_STATE_WORKING");

    // Its agent is not there at first: what it is owed is kept until it is.
    CHECK(with.report("heron:m-1", "blocked", "which one?").status == 200);
    const unique_fd listener = bound("fd12::7", agent_port);
    REQUIRE(::listen(listener.get(), 8) == 0);
    const std::string note = take_note(listener);
    INFO(note);
    CHECK(note.starts_with("POST /v1/sessions/jimmy/messages HTTP/1.1\r\nHost: [fd12::7]:7387\r\n"));
    CHECK(note.find("laptop/heron:m-1 needs your answer") != std::string::npos);
    CHECK(note.find("which one?") != std::string::npos);
    CHECK(note.find("tasknote-heron:m-1-input-required-") != std::string::npos);

    json caged = from_pi5("/a2a/heron",
                          rpc("SendMessage", message("m-2", "x", {{"shrooms/from", "laptop/w1"}})), "rev")
                     .body["result"]["task"];
    CHECK(caged["metadata"]["shrooms/held"] == true);
    CHECK(caged["metadata"]["shrooms/from"] == "pi5 (pi5/rev, in a cage)");
    CHECK(from_pi5("/v1/tasks/heron:m-2/allow", json::object(), "rev").status == 403);
    CHECK(with.post("/v1/tasks/heron:m-2/allow", {{"always", true}}).status == 200);
    CHECK(with.info()["accept_caged_from"] == json::array({"pi5/rev"}));
}

} // namespace

TEST_CASE("an asker elsewhere is known by its address, told by its agent, and reports on nothing here") {
    if (::geteuid() != 0) SKIP("root, for a network namespace");
    std::exception_ptr error;
    std::thread([&] {
        try {
            // This thread's alone, and the agent's that it starts: nothing leads out of it.
            check(::unshare(CLONE_NEWNET), "make a network namespace");
            if (std::system("ip link set lo up && ip addr add fd12::1/128 dev lo nodad && "
                            "ip addr add fd12::7/128 dev lo nodad") != 0)
                fail("the namespace's loopback has no addresses");
            ask_from_elsewhere();
        } catch (...) {
            error = std::current_exception();
        }
    }).join();
    if (error) std::rethrow_exception(error);
}
