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
#include <utility>

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

answered asked_from(const char* address, const std::string& method, const std::string& path,
                    const json& body = json::object(), const std::string& caged = "") {
    const unique_fd connection = bound(address, 0);
    const sockaddr_in6 to = at("fd12::1", agent_port);
    check(::connect(connection.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to),
          "connect to fd12::1");
    const std::string text = body.dump();
    send_text(connection, fmt::format("{} {} HTTP/1.1\r\nHost: [fd12::1]:7387\r\nConnection: close\r\n{}"
                                      "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
                                      method, path, caged.empty() ? "" : "X-Shrooms-Caged: " + caged + "\r\n",
                                      text.size(), text));
    return parse_answer(receive_all(connection, std::chrono::seconds(30)));
}

// A request of the machine pi5, as its agent or one of its programs sends it.
answered from_pi5(const std::string& path, const json& body, const std::string& caged = "") {
    return asked_from("fd12::7", "POST", path, body, caged);
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

// Each thing that tells of a session, as the caller at this address is answered.
json told_of_heron(const char* address) {
    json told;
    const auto list = asked_from(address, "GET", "/v1/sessions").body["sessions"];
    told["list"] = list.size();
    for (const char* path : {"", "/history", "/search?q=a", "/drop", "/outbox", "/report"})
        told[path] = asked_from(address, "GET", "/v1/sessions/heron" + std::string(path)).status;
    told["message"] = asked_from(address, "POST", "/v1/sessions/heron/messages", {{"text", "hello"}}).status;
    told["rename"] = asked_from(address, "POST", "/v1/sessions/heron/rename", {{"name", "heron"}}).status;
    const auto ask = asked_from(address, "POST", "/a2a/heron", rpc("SendMessage", message("m-9", "x"))).body;
    told["ask"] = ask.contains("error") ? ask["error"]["code"] : json("taken");
    const auto get = asked_from(address, "POST", "/a2a", rpc("GetTask", {{"id", "heron:m-1"}})).body;
    told["task"] = get.contains("error") ? get["error"]["code"] : json("shown");
    told["tasks"] = asked_from(address, "GET", "/v1/tasks").body["tasks"].size() > 0;
    told["a2a tasks"] =
        asked_from(address, "POST", "/a2a", rpc("ListTasks", json::object())).body["result"]["totalSize"] > 0;
    told["nudge"] = asked_from(address, "POST", "/v1/tasks/heron:m-1/nudge").status;
    told["card"] = asked_from(address, "GET", "/a2a/heron/.well-known/agent-card.json").status;
    told["on the machine's card"] =
        asked_from(address, "GET", "/.well-known/agent-card.json").text.find("heron") != std::string::npos;
    return told;
}

void limit_to_meshes() {
    task_machine with(std::chrono::minutes(10), "fd12::1");
    REQUIRE(with.make().status == 201);
    REQUIRE(with.ask("m-1", "work").contains("id"));
    CHECK(with.get("/v1/meshes").body["meshes"] == json::array({"home", "work"}));
    CHECK(with.get("/v1/peers").body["peers"] ==
          json::array({{{"name", "pi5"}, {"mesh", "home"}, {"overlay", "fd12::7"}},
                       {{"name", "desk"}, {"mesh", "work"}, {"overlay", "fd13::9"}}}));
    const auto limit = [&](json to) {
        return with.post("/v1/sessions/heron/settings", {{"meshes", std::move(to)}});
    };
    const answered wrong = limit({"home", "elsewhere"});
    CHECK(wrong.status == 400);
    CHECK(wrong.text.find("elsewhere") != std::string::npos);
    CHECK_FALSE(with.info().contains("meshes"));

    const json all = told_of_heron("fd12::7");
    INFO(all.dump());
    CHECK(all[""] == 200);
    CHECK(all["task"] == "shown");
    CHECK(told_of_heron("fd13::9") == all); // not limited: shown to everybody
    CHECK(told_of_heron("fd99::9") == all);

    REQUIRE(limit({"home"}).status == 200);
    CHECK(told_of_heron("fd12::7") == all);
    CHECK(told_of_heron("fd13::1") == all); // the machine itself, by its address on the other mesh
    const json missing{
        {"list", 0},          {"", 404},        {"/history", 404}, {"/search?q=a", 404},
        {"/drop", 404},       {"/outbox", 404}, {"/report", 404},  {"message", 404},
        {"rename", 404},      {"ask", -32602},  {"task", -32001},  {"tasks", false},
        {"a2a tasks", false}, {"nudge", 404},   {"card", 404},     {"on the machine's card", false}};
    for (const char* outside : {"fd13::9", "fd99::9"}) {
        const json told = told_of_heron(outside);
        INFO(outside << ' ' << told.dump());
        CHECK(told == missing);
        CHECK(asked_from(outside, "GET", "/v1/sessions/heron/events").status == 404);
    }
    CHECK(with.info()["meshes"] == json::array({"home"})); // on the owner's socket as before
    REQUIRE(limit(json::array()).status == 200);
    CHECK(told_of_heron("fd13::9") == all);
}

// In a network namespace of a thread's own, which its agent shares: nothing leads out of it.
void alone(void (*test)()) {
    if (::geteuid() != 0) SKIP("root, for a network namespace");
    std::exception_ptr error;
    std::thread([&] {
        try {
            check(::unshare(CLONE_NEWNET), "make a network namespace");
            std::string command = "ip link set lo up";
            for (const char* each : {"fd12::1", "fd12::7", "fd13::1", "fd13::9", "fd99::9"})
                command += fmt::format(" && ip addr add {}/128 dev lo nodad", each);
            if (std::system(command.c_str()) != 0) fail("the namespace's loopback has no addresses");
            test();
        } catch (...) {
            error = std::current_exception();
        }
    }).join();
    if (error) std::rethrow_exception(error);
}

} // namespace

TEST_CASE("a session limited to some meshes is missing for machines on others, on every route") {
    alone(limit_to_meshes);
}

TEST_CASE("an asker elsewhere is known by its address, told by its agent, and reports on nothing here") {
    alone(ask_from_elsewhere);
}
