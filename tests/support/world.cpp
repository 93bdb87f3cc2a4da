#include "support/world.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"
#include "support/time_scale.hpp"

#include <array>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace pinfold::test {

using nlohmann::json;

namespace {

int made = 0;

unique_fd connect_to(const std::filesystem::path& path) {
    sockaddr_un address{.sun_family = AF_UNIX};
    REQUIRE(path.native().size() < sizeof address.sun_path);
    std::memcpy(address.sun_path, path.c_str(), path.native().size());
    unique_fd connection(
        check(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), "make a socket for the world"));
    check(::connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
          "connect to {}", path.native());
    return connection;
}

} // namespace

int run_command(const std::string& command, const std::string& environment) {
    const std::string whole = fmt::format(
        "env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 PINFOLD_TIME_SCALE={} {} {}", time_scale(),
        environment, command);
    const int status = std::system(whole.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

world::world() : name_(fmt::format("pft{}x{}", ::getpid(), made++)) {
    if (::geteuid() != 0) SKIP("root, to make network namespaces");
    const std::string program = PINFOLD_SOURCE_DIR "/tests/world";
    if (run_command(program + " up >/dev/null", "PINFOLD_WORLD=" + name_) != 0)
        fail("the test world did not come up");
    directory_ = std::filesystem::path("/run/pinfold-world") / name_;
    control_ = connect_to(directory_ / "control");
}

world::~world() {
    (void)run_command(PINFOLD_SOURCE_DIR "/tests/world down >/dev/null 2>&1", "PINFOLD_WORLD=" + name_);
}

void world::enter(const std::string& space) const {
    const std::string path = fmt::format("/run/netns/{}-{}", name_, space);
    const unique_fd there(check(::open(path.c_str(), O_RDONLY | O_CLOEXEC), "open {}", path));
    check(::setns(there.get(), CLONE_NEWNET), "enter {}", path);
}

std::string world::ask(const std::string& request) {
    const std::string line = request + "\n";
    check(::send(control_.get(), line.data(), line.size(), MSG_NOSIGNAL), "ask the test world");
    std::string answer;
    std::array<char, 65536> part{};
    while (answer.empty() || answer.back() != '\n') {
        const ssize_t got = check(::recv(control_.get(), part.data(), part.size(), 0), "hear the test world");
        if (got == 0) fail("the test world hung up");
        answer.append(part.data(), static_cast<std::size_t>(got));
    }
    const json parsed = json::parse(answer);
    if (!parsed.at("ok").get<bool>()) fail("the test world: {}", parsed.at("error").get<std::string>());
    return answer;
}

arrived world::count(const std::string& space, const std::string& protocol, const std::string& address,
                     std::uint16_t port) {
    const json answer = json::parse(ask(json{{"cmd", "count"}, {"namespace", space}}.dump()));
    if (answer.at("dropped").get<std::uint64_t>() != 0)
        fail("the capture lost packets: its counts prove nothing");
    arrived sum;
    for (const json& each : answer.at("counters")) {
        if (!protocol.empty() && each.at("protocol") != protocol) continue;
        if (!address.empty() && each.at("address") != address) continue;
        if (port != 0 && each.at("port") != port) continue;
        sum.packets += each.at("packets").get<std::uint64_t>();
        sum.bytes += each.at("bytes").get<std::uint64_t>();
        sum.syns += each.at("syns").get<std::uint64_t>();
    }
    return sum;
}

void world::reset() {
    (void)ask(R"({"cmd":"reset"})");
}

std::uint64_t world::questions(const std::string& server, const std::string& name) {
    (void)count("internet"); // waits until what is on its way has arrived
    const json answer = json::parse(ask(R"({"cmd":"dns"})"));
    std::uint64_t sum = 0;
    for (const json& each : answer.at("questions"))
        if (each.at("server") == server && (name.empty() || each.at("name") == name))
            sum += each.at("count").get<std::uint64_t>();
    return sum;
}

void world::run(const std::string& space, const std::string& command) const {
    const std::string whole = fmt::format(PINFOLD_SOURCE_DIR "/tests/world exec {} -- {}", space, command);
    if (run_command(whole, "PINFOLD_WORLD=" + name_) != 0) fail("in {}: '{}' failed", space, command);
}

void world::listen(const std::string& space, const std::string& protocol, const std::string& address,
                   std::uint16_t port) {
    (void)ask(json{
        {"cmd", "listen"}, {"namespace", space}, {"protocol", protocol}, {"address", address}, {"port", port}}
                  .dump());
}

} // namespace pinfold::test
