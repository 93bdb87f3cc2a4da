#include "support/agent_fixture.hpp"
#include "support/catch.hpp"
#include "support/fake_keeper.hpp"

#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

using namespace pinfold::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

json request(const std::vector<std::string>& argv, const char* mode = "caged",
             const json& more = json::object()) {
    json body{{"mode", mode}, {"dir", "/var/tmp"}, {"argv", argv}};
    body.update(more);
    return body;
}

json shell(const char* script, const char* mode = "caged", const json& more = json::object()) {
    return request({"sh", "-c", script}, mode, more);
}

struct with_keeper {
    agent_fixture agent;
    fake_keeper keeper{agent.keeper_socket()};
    stdio_peer run(const json& body) { return {agent.api(), "/v1/cages", body.dump()}; }
};

std::string error_of(const std::string& answer) {
    const std::size_t end = answer.find("\r\n\r\n");
    return json::parse(answer.substr(end + 4)).value("error", "");
}

} // namespace

TEST_CASE("a program's output, errors and end come in frames of their own") {
    for (const char* mode : {"caged", "sealed", "uncaged"}) {
        with_keeper world;
        stdio_peer peer = world.run(shell("echo out; echo err >&2; exit 7", mode, {{"name", "heron"}}));
        CHECK_THAT(peer.head(), ContainsSubstring("101 Switching Protocols"));
        const json started = json::parse(peer.wait_for(PINFOLD_FRAME_STARTED).payload);
        CHECK(started.at("name") == "heron");
        CHECK(started.at("mode") == mode);
        std::string out, err;
        for (auto frame = peer.next(); frame.type != 0; frame = peer.next()) {
            if (frame.type == PINFOLD_FRAME_STDOUT) out += frame.payload;
            if (frame.type == PINFOLD_FRAME_STDERR) err += frame.payload;
            if (frame.type == PINFOLD_FRAME_EXIT) CHECK(json::parse(frame.payload).at("status") == 7);
        }
        CHECK(out == "out\n");
        CHECK(err == "err\n");
        CHECK(eventually([&] { return world.agent.get("/v1/cages").find("heron") == std::string::npos; }));
    }
}

TEST_CASE("bytes go through unchanged, and input is credited as it is read") {
    with_keeper world;
    for (const char* mode : {"caged", "uncaged"}) {
        stdio_peer peer = world.run(request({"cat"}, mode));
        std::string sent;
        for (int i = 0; i < 200000; ++i) sent += static_cast<char>((i * 31 + i / 257) & 0xff);
        for (std::size_t at = 0; at < sent.size(); at += 60000)
            peer.send(PINFOLD_FRAME_STDIN, std::string_view(sent).substr(at, 60000));
        peer.send(PINFOLD_FRAME_STDIN_END, "");
        std::string back;
        std::uint64_t credit = 0;
        for (auto frame = peer.next(); frame.type != 0; frame = peer.next()) {
            if (frame.type == PINFOLD_FRAME_STDOUT) back += frame.payload;
            if (frame.type == PINFOLD_FRAME_CREDIT)
                credit += pinfold_get32(reinterpret_cast<const unsigned char*>(frame.payload.data()));
        }
        CHECK(back == sent);
        CHECK(credit == sent.size());
    }
}

TEST_CASE("input beyond the credit ends the connection, and with it the program") {
    with_keeper world;
    stdio_peer peer = world.run(request({"sleep", "600"}, "uncaged", {{"name", "flooded"}}));
    peer.wait_for(PINFOLD_FRAME_STARTED);
    const std::string block(65536, 'x');
    // Four blocks are the window, and what a pipe takes comes on top: sixteen are too many for a program that reads nothing.
    for (int i = 0; i < 16; ++i) peer.send(PINFOLD_FRAME_STDIN, block);
    CHECK(eventually([&] { return world.agent.get("/v1/cages").find("flooded") == std::string::npos; }));
}

TEST_CASE("a signal reaches a program that reads no input, and its end says which") {
    with_keeper world;
    for (const char* mode : {"caged", "uncaged"}) {
        stdio_peer peer = world.run(request({"sleep", "600"}, mode));
        peer.wait_for(PINFOLD_FRAME_STARTED);
        for (int i = 0; i < 4; ++i)
            peer.send(PINFOLD_FRAME_STDIN, std::string(65536, 'x')); // all of the window
        peer.send_number(PINFOLD_FRAME_SIGNAL, SIGTERM);
        peer.collect(PINFOLD_FRAME_STDOUT);
        CHECK(json::parse(peer.last().payload).at("status") == 128 + SIGTERM);
    }
}

TEST_CASE("a client that reads slowly loses nothing, and holds up nobody else") {
    with_keeper world;
    stdio_peer slow = world.run(shell("head -c 3000000 /dev/zero; exit 4", "uncaged"));
    std::this_thread::sleep_for(std::chrono::milliseconds(2500)); // longer than what is given to leftovers
    stdio_peer other = world.run(shell("echo quick", "uncaged"));
    CHECK(other.collect(PINFOLD_FRAME_STDOUT) == "quick\n");
    CHECK(slow.collect(PINFOLD_FRAME_STDOUT).size() == 3000000);
    CHECK(json::parse(slow.last().payload).at("status") == 4);
}

TEST_CASE("a child that keeps the output open does not keep the program's end from its client") {
    with_keeper world;
    stdio_peer peer = world.run(shell("sleep 30 & echo done; exit 5", "uncaged"));
    const auto begin = std::chrono::steady_clock::now();
    CHECK(peer.collect(PINFOLD_FRAME_STDOUT) == "done\n");
    CHECK(json::parse(peer.last().payload).at("status") == 5);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(8));
}

TEST_CASE("a client that hangs up ends its program: SIGHUP first, and what ignores it after a grace") {
    with_keeper world;
    const std::filesystem::path mark = world.agent.directory() / "hung-up";
    const std::string polite = "trap 'touch " + mark.native() + "; exit 0' HUP; while :; do sleep 0.05; done";
    for (const char* mode : {"caged", "uncaged"}) {
        std::filesystem::remove(mark);
        stdio_peer peer = world.run(shell(polite.c_str(), mode, {{"name", "polite"}}));
        peer.wait_for(PINFOLD_FRAME_STARTED);
        std::this_thread::sleep_for(std::chrono::milliseconds(300)); // the trap is set
        peer.hang_up();
        CHECK(eventually([&] { return std::filesystem::exists(mark); }));
        CHECK(eventually([&] { return world.agent.get("/v1/cages").find("polite") == std::string::npos; }));

        stdio_peer stubborn = world.run(
            shell("trap '' HUP; while :; do sleep 1; done", mode, {{"name", "stubborn"}}));
        stubborn.wait_for(PINFOLD_FRAME_STARTED);
        stubborn.hang_up();
        CHECK(eventually([&] { return world.agent.get("/v1/cages").find("stubborn") == std::string::npos; },
                         std::chrono::seconds(15)));
    }
}

TEST_CASE("a terminal has the client's size, passes Ctrl-C as a byte and follows a resize") {
    with_keeper world;
    for (const char* mode : {"caged", "uncaged"}) {
        stdio_peer peer = world.run(shell("stty size; trap 'stty size; exit 9' WINCH; trap 'echo got-int' "
                                          "INT; while :; do sleep 0.05; done",
                                          mode, {{"terminal", {{"rows", 40}, {"cols", 100}}}}));
        std::string seen;
        const auto until = [&](const char* what) {
            while (seen.find(what) == std::string::npos) {
                const auto frame = peer.next();
                if (frame.type == 0 || frame.type == PINFOLD_FRAME_EXIT) return false;
                if (frame.type == PINFOLD_FRAME_STDOUT) seen += frame.payload;
            }
            return true;
        };
        REQUIRE(until("40 100"));
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        peer.send(PINFOLD_FRAME_STDIN, "\x03");
        CHECK(until("got-int"));
        peer.send_number(PINFOLD_FRAME_RESIZE, 50U << 16 | 132U);
        CHECK(until("50 132"));
        peer.collect(PINFOLD_FRAME_STDOUT);
        CHECK(json::parse(peer.last().payload).at("status") == 9);
    }
}

TEST_CASE("what a program is given to see is a list: nothing of the agent's own environment") {
    with_keeper world;
    stdio_peer peer = world.run(
        shell("env | sort", "sealed", {{"name", "plain"}, {"env", {{"LANG", "C.UTF-8"}}}}));
    const std::string seen = peer.collect(PINFOLD_FRAME_STDOUT);
    CHECK_THAT(seen, ContainsSubstring("HOME=/root\n"));
    CHECK_THAT(seen, ContainsSubstring("LANG=C.UTF-8\n"));
    CHECK_THAT(seen, ContainsSubstring("PINFOLD_CAGE=plain\nPINFOLD_MODE=sealed\n"));
    CHECK(seen.find("pinfold-test") == std::string::npos); // the agent's HOME
}

TEST_CASE("what cannot be meant is refused in one line, and nothing is made") {
    with_keeper world;
    const auto refused = [&](const json& body) {
        const std::string answer = world.agent.post(
            "/v1/cages", body.dump(), "Connection: Upgrade, close\r\nUpgrade: pinfold-stdio\r\n");
        CHECK_THAT(answer, ContainsSubstring("HTTP/1.1 400"));
        return error_of(answer);
    };
    CHECK_THAT(refused(request({"true"}, "caged", {{"colour", 1}})), ContainsSubstring("colour"));
    CHECK_THAT(refused(request({"true"}, "caged", {{"limits", {{"swap", 1}}}})),
               ContainsSubstring("limits.swap"));
    CHECK_THAT(refused(request({"true"}, "open")), ContainsSubstring("mode"));
    CHECK_THAT(refused(request({})), ContainsSubstring("argv"));
    CHECK_THAT(refused(request({"true"}, "caged", {{"name", std::string(65, 'a')}})),
               ContainsSubstring("name"));
    CHECK_THAT(refused(request({"true"}, "caged", {{"name", "a/b"}})), ContainsSubstring("name"));
    CHECK_THAT(refused(request({"true"}, "caged", {{"limits", {{"memory", 1000}}}})),
               ContainsSubstring("16 MiB"));
    CHECK_THAT(refused(request({"true"}, "caged", {{"limits", {{"cpus", -1}}}})),
               ContainsSubstring("limits.cpus"));
    CHECK_THAT(refused(request({"true"}, "caged", {{"terminal", {{"rows", 70000}}}})),
               ContainsSubstring("terminal.rows"));
    CHECK_THAT(refused(request({"true"}, "caged", {{"env", {{"A=B", "c"}}}})), ContainsSubstring("env"));
    CHECK(world.keeper.makes == 0);
    CHECK_THAT(world.agent.post("/v1/cages", request({"true"}).dump()), ContainsSubstring("HTTP/1.1 426"));
    CHECK(world.keeper.makes == 0);
}

TEST_CASE("a missing directory, a name that is taken, a keeper that refuses: an error frame that says so") {
    with_keeper world;
    const auto error_frame = [&](const json& body) {
        stdio_peer peer = world.run(body);
        peer.collect(PINFOLD_FRAME_STDOUT);
        CHECK(peer.last().type == PINFOLD_FRAME_ERROR);
        return json::parse(peer.last().payload);
    };
    CHECK_THAT(
        error_frame(request({"true"}, "caged", {{"dir", "/nonexistent"}})).at("error").get<std::string>(),
        ContainsSubstring("/nonexistent"));
    CHECK(world.keeper.makes == 0);
    const json missing = error_frame(request({"/no/such/program"}, "uncaged"));
    CHECK(missing.at("status") == 127);
    CHECK(error_frame(request({"/etc/passwd"}, "uncaged")).at("status") == 126);
    CHECK(error_frame(request({"/no/such/program"}, "sealed")).at("status") == 127);

    stdio_peer first = world.run(request({"sleep", "600"}, "caged", {{"name", "one"}}));
    first.wait_for(PINFOLD_FRAME_STARTED);
    CHECK_THAT(error_frame(request({"true"}, "caged", {{"name", "one"}})).at("error").get<std::string>(),
               ContainsSubstring("already"));
    CHECK_THAT(error_frame(request({"true"}, "uncaged", {{"name", "one"}})).at("error").get<std::string>(),
               ContainsSubstring("already"));
}

TEST_CASE("search domains and resolvers of the machine are for caged cages only") {
    with_keeper world;
    std::ofstream(world.agent.directory() / "resolv.conf")
        << "nameserver 127.0.0.53\nsearch lan.example corp.example\n";
    world.run(request({"true"}, "caged")).collect(PINFOLD_FRAME_STDOUT);
    CHECK(world.keeper.last_spec.search_domains == std::vector<std::string>{"lan.example", "corp.example"});
    world.run(request({"true"}, "sealed")).collect(PINFOLD_FRAME_STDOUT);
    CHECK(world.keeper.last_spec.search_domains.empty());
    CHECK(world.keeper.last_spec.mode == pinfold::cage_mode::sealed);
}

TEST_CASE("a memory kill and a keeper that goes are told with the end") {
    with_keeper world;
    world.keeper.memory_kill = true;
    stdio_peer peer = world.run(shell("kill -9 $$", "caged", {{"limits", {{"memory", 64 << 20}}}}));
    peer.collect(PINFOLD_FRAME_STDOUT);
    const json end = json::parse(peer.last().payload);
    CHECK(end.at("memory_kill") == true);
    CHECK(end.at("memory_limit") == 64 << 20);
    CHECK(end.at("memory_peak") == 12345678);
    CHECK(end.at("status") == 137);
}

TEST_CASE("a keeper that dies takes nothing along that it did not own, and the agent finds the next one") {
    agent_fixture agent;
    auto keeper = std::make_unique<fake_keeper>(agent.keeper_socket());
    stdio_peer caged(agent.api(), "/v1/cages", request({"sleep", "600"}, "caged").dump());
    caged.wait_for(PINFOLD_FRAME_STARTED);
    stdio_peer uncaged(agent.api(), "/v1/cages", shell("read line; echo $line", "uncaged").dump());
    uncaged.wait_for(PINFOLD_FRAME_STARTED);
    keeper.reset(); // the fake's programs end with it, and nobody tells
    caged.collect(PINFOLD_FRAME_STDOUT);
    CHECK(json::parse(caged.last().payload).at("keeper_lost") == true);
    uncaged.send(PINFOLD_FRAME_STDIN, "still here\n");
    CHECK(uncaged.collect(PINFOLD_FRAME_STDOUT) == "still here\n");
    keeper = std::make_unique<fake_keeper>(agent.keeper_socket());
    stdio_peer next(agent.api(), "/v1/cages", shell("echo again").dump());
    CHECK(next.collect(PINFOLD_FRAME_STDOUT) == "again\n");
}

TEST_CASE("an agent that is told to stop ends its programs, tells their clients and goes") {
    with_keeper world;
    stdio_peer caged = world.run(shell("trap 'exit 6' HUP; while :; do sleep 0.05; done"));
    caged.wait_for(PINFOLD_FRAME_STARTED);
    stdio_peer uncaged = world.run(request({"sleep", "600"}, "uncaged"));
    uncaged.wait_for(PINFOLD_FRAME_STARTED);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const int status = world.agent.stop();
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    caged.collect(PINFOLD_FRAME_STDOUT);
    CHECK(json::parse(caged.last().payload).at("status") == 6);
    uncaged.collect(PINFOLD_FRAME_STDOUT);
    CHECK(json::parse(uncaged.last().payload).at("status") == 128 + SIGHUP);
}
