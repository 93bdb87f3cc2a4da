// Between the programs of one machine without any address: abstract UNIX names stay on their side of a cage's wall.
#include "cagebreak/refusal.hpp"

#include "base/error.hpp"

#include <array>
#include <cstddef>
#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace pinfold::test {
namespace {

constexpr int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};

struct abstract_name {
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    socklen_t size = 0;

    explicit abstract_name(const std::string& name) { // with the zero at its end that the probe's has
        std::memcpy(address.sun_path + 1, name.data(), name.size());
        size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    }
    [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

unique_fd listening(int type, const std::string& name) {
    const abstract_name at(name);
    unique_fd made(check(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "make a socket"));
    check(::bind(made.get(), at.get(), at.size), "bind {}", name);
    if (type != SOCK_DGRAM) check(::listen(made.get(), 4), "listen at {}", name);
    return made;
}

TEST_CASE("B29 an abstract socket of the machine is neither seen nor reached from a cage") {
    cage_machine& machine = cage_machine::here();
    for (const int type : types) {
        const std::string name = fmt::format("pinfold-host-{}-{}", ::getpid(), type);
        const unique_fd server = listening(type, name);
        for (const cage_kind& kind : {sealed(), caged()}) {
            CAPTURE(type);
            const probed refused = machine.probe(kind, {"abstract-connect", name});
            CHECK(refused.says("ECONNREFUSED"));
            CHECK_FALSE(machine.run(kind, {"cat", "/proc/net/unix"}).says("pinfold-host"));
        }
        if (type != SOCK_DGRAM)
            CHECK(::accept4(server.get(), nullptr, nullptr, SOCK_CLOEXEC) < 0); // nobody came
        CHECK(machine.bare({"abstract-connect", name}).status == 0);
    }
}

TEST_CASE(
    "B29 an abstract socket of a cage is neither seen nor reached from the machine, nor from another cage") {
    cage_machine& machine = cage_machine::here();
    const std::string code = "import socket, time\n"
                             "kept = []\n"
                             "for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):\n"
                             "    s = socket.socket(socket.AF_UNIX, kind)\n"
                             "    s.bind(chr(0) + 'pinfold-cage-%d' % kind)\n"
                             "    if kind != socket.SOCK_DGRAM: s.listen()\n"
                             "    kept.append(s)\n"
                             "print('ready', flush=True)\n"
                             "time.sleep(60)\n";
    for (const cage_kind& kind : {sealed(), caged()}) {
        const auto cage = machine.start(kind, python(code));
        std::array<char, 5> line{};
        REQUIRE(::read(cage->built().streams().output.get(), line.data(), line.size()) == 5);
        for (const int type : types) {
            CAPTURE(type);
            const std::string name = fmt::format("pinfold-cage-{}", type);
            CHECK(machine.bare({"abstract-connect", name}).says("ECONNREFUSED"));
            CHECK(machine.probe(kind, {"abstract-connect", name}).says("ECONNREFUSED"));
            // The twin: another program of the same cage.
            const probed met = cage->enter(
                python(fmt::format("import socket\n"
                                   "socket.socket(socket.AF_UNIX, {}).connect(chr(0) + '{}')\n"
                                   "print('met')\n",
                                   type, name)));
            CAPTURE(met.output, met.errors);
            CHECK(met.says("met"));
            CHECK(cage->enter({"cat", "/proc/net/unix"}).says(name));
        }
    }
    (void)succeeds(sealed(), {"abstract-pair", "pinfold-pair"});
}

} // namespace
} // namespace pinfold::test
