// The machines and meshes, from a daemon's socket and from a file, each asked as an agent does.
#include "agent/proxy/machines.hpp"
#include "support/catch.hpp"
#include "support/cli_process.hpp"

#include <fstream>
#include <optional>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>

namespace pinfold::test {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view status =
    R"({"name":"laptop.home","meshes":[{"label":"home","overlay":"fd12::1"},{"label":"work","overlay":"fd13::1"}],
        "peers":[{"name":"pi5.home","mesh":"home","overlay":"fd12::7","overlay_v4":"198.19.0.7"},
                 {"name":"pi5.work","mesh":"work","overlay":"fd13::7"},
                 {"name":"laptop.work","mesh":"work","overlay":"fd13::66"}]})";

// A shrooms daemon that answers each request once, and says what it was asked.
class daemon_standin {
public:
    daemon_standin(const fs::path& socket, std::string answer)
        : listener_(check(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), "make a socket")),
          answer_(std::move(answer)) {
        sockaddr_un name{.sun_family = AF_UNIX};
        socket.native().copy(name.sun_path, sizeof name.sun_path - 1);
        check(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), "bind");
        check(::listen(listener_.get(), 8), "listen");
        thread_ = std::thread([this] { serve(); });
    }
    daemon_standin(const daemon_standin&) = delete;
    daemon_standin& operator=(const daemon_standin&) = delete;
    ~daemon_standin() {
        ::shutdown(listener_.get(), SHUT_RDWR);
        thread_.join();
    }
    std::string asked; // read when it has ended
    int times = 0;

private:
    void serve() {
        while (true) {
            const unique_fd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
            if (!client) return;
            std::string got(4096, '\0');
            const ssize_t size = ::recv(client.get(), got.data(), got.size(), 0);
            asked = got.substr(0, static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
            ++times;
            std::ignore = ::send(client.get(), answer_.data(), answer_.size(), MSG_NOSIGNAL);
        }
    }

    unique_fd listener_;
    std::string answer_;
    std::thread thread_;
};

std::string http_answer(int code, std::string_view body) {
    return "HTTP/1.1 " + std::to_string(code) +
           " X\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + std::string(body);
}

// What the list reads, or throws what keeps it from that.
known_machines read(uring& ring, machine_list& from) {
    std::optional<known_machines> made;
    std::exception_ptr error;
    {
        task_group tasks([&](const std::exception_ptr& thrown) { error = thrown; });
        tasks.spawn([](machine_list* list,
                       std::optional<known_machines>* into) -> task<> { *into = *co_await list->read(); },
                    &from, &made);
        while (tasks.running() > 0) ring.run_once(true);
    }
    if (error) std::rethrow_exception(error);
    return made.value();
}

} // namespace

TEST_CASE("where the shrooms daemon runs it says which machines and meshes there are, before any file") {
    const scratch_directory place;
    std::ofstream(place.path() / "peers.json") << R"({"machines":[{"name":"other","addr":"fd99::1"}]})";
    uring ring;
    std::string asked;
    int times = 0;
    {
        daemon_standin daemon(place.path() / "sock", http_answer(200, status));
        machine_list list(
            ring, {.peers = place.path() / "peers.json", .daemon = place.path() / "sock", .name = "here"});
        const known_machines known = read(ring, list);
        REQUIRE(known.machines.size() == 2);
        CHECK(known.machines[0].name == "laptop");
        CHECK(known.machines[1].addr == "fd12::7");
        REQUIRE(known.meshes.size() == 2);
        CHECK(known.meshes[1].label == "work");
        CHECK(known.meshes[1].own == "fd13::1"); // a peer with this machine's name is a peer
        REQUIRE(known.meshes[1].peers.size() == 2);
        CHECK(known.meshes[1].peers[1].addr == "fd13::66");
        CHECK(read(ring, list).machines.size() == 2); // known for some seconds
        times = daemon.times;
        asked = daemon.asked;
    }
    CHECK(times == 1);
    CHECK(asked.starts_with("GET /status HTTP/1.1\r\n"));
}

TEST_CASE("a daemon that cannot say which machines there are is an error, and no file stands in for it") {
    for (const std::string& answer :
         {http_answer(500, "{}"), http_answer(200, "{}"), http_answer(200, "no JSON"), std::string(),
          std::string("nonsense\r\n\r\n"),
          http_answer(200, R"({"name":"a","meshes":[{"overlay":"host"}]})")}) {
        CAPTURE(answer);
        const scratch_directory place;
        std::ofstream(place.path() / "peers.json") << R"({"machines":[{"name":"other","addr":"fd99::1"}]})";
        uring ring;
        const daemon_standin daemon(place.path() / "sock", answer);
        machine_list list(
            ring, {.peers = place.path() / "peers.json", .daemon = place.path() / "sock", .name = "here"});
        CHECK_THROWS(read(ring, list));
    }
}

TEST_CASE("without a daemon the peers file counts, and without both this machine is alone") {
    const scratch_directory place;
    uring ring;
    const machine_list::settings from{
        .peers = place.path() / "peers.json", .daemon = place.path() / "none", .name = "here.home"};
    machine_list alone(ring, from);
    const known_machines own = read(ring, alone);
    REQUIRE(own.machines.size() == 1);
    CHECK(own.machines[0].name == "here");
    std::ofstream(place.path() / "peers.json")
        << R"({"machines":[{"name":"here","addr":"fd12::1","mesh":"home"},{"name":"here","addr":"fd13::1","mesh":"work"},
                           {"name":"pi5","addr":"fd12::7","mesh":"home"},{"name":"pi5","addr":"fd13::7","mesh":"work"}]})";
    machine_list list(ring, from);
    const known_machines all = read(ring, list);
    CHECK(all.machines.size() == 2);
    REQUIRE(all.meshes.size() == 2);
    CHECK(all.meshes[1].own == "fd13::1");
    CHECK(all.meshes[1].peers.size() == 1);
}

} // namespace pinfold::test
