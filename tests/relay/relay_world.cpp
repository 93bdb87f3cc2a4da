#include "relay/relay_world.hpp"

#include "ring/uring.hpp"
#include "spec/cage_spec.hpp"

#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

namespace pinfold::test {

namespace {

unique_fd new_space() {
    unique_fd made;
    std::exception_ptr error;
    std::thread([&] {
        try {
            check(::unshare(CLONE_NEWNET), "make a network namespace");
            made = unique_fd(
                check(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC), "open a namespace"));
        } catch (...) {
            error = std::current_exception();
        }
    }).join();
    if (error) std::rethrow_exception(error);
    return made;
}

void run(const unique_fd& space, const std::string& commands) {
    inside(space, [&] {
        const int status = std::system(("set -e; " + commands).c_str());
        if (status != 0) fail("the test world could not be made: {}", commands);
    });
}

constexpr const char* near_commands = R"(
ip link set lo up; ip link set near0 up
ip address add 10.77.0.1/24 dev near0; ip -6 address add fd77::1/64 dev near0 nodad
ip address add 203.0.113.5/32 dev lo
ip route add default via 10.77.0.2; ip -6 route add default via fd77::2
ip route add 198.51.100.0/24 via 10.77.0.2
ip rule add to 192.0.2.98 type unreachable
echo '0 2147483647' > /proc/sys/net/ipv4/ping_group_range
)";

constexpr const char* far_commands = R"(
ip link set lo up; ip link set far0 up
ip address add 10.77.0.2/24 dev far0; ip -6 address add fd77::2/64 dev far0 nodad
ip address add 93.184.216.34/32 dev lo; ip -6 address add 2606:2800:220:1::34/128 dev lo nodad
ip address add 198.51.100.7/32 dev lo
echo 1 > /proc/sys/net/ipv4/ip_forward
ip route add blackhole 192.0.2.66; ip route add unreachable 192.0.2.99
ip route add 203.0.113.5 via 10.77.0.1
echo 0 > /proc/sys/net/ipv4/icmp_ratelimit
)";

struct control_message {
    char what = 0;
    std::uint64_t id = 0;
};

// The child's end of the control socket, within its ring.
task<> obey(uring& ring, relay& relay, int control) {
    for (;;) {
        control_message message;
        const int size = co_await receive(ring, control, std::as_writable_bytes(std::span(&message, 1)));
        if (size <= 0 || message.what == 'q') break;
        if (message.what == 'r') relay.remove(message.id);
        const relay_figures now = relay.figures(message.id);
        std::ignore = co_await send_all(ring, control, std::as_bytes(std::span(&now, 1)));
    }
    ring.stop();
}

void become_nobody() {
    constexpr ::gid_t nobody = 65534;
    check(::setgroups(0, nullptr), "drop the groups");
    check(::setresgid(nobody, nobody, nobody), "become nobody's group");
    check(::setresuid(nobody, nobody, nobody), "become nobody"); // takes all capabilities, too
    check(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "renounce privileges");
    check(::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), "be read by the test"); // its /proc, for the memory figures
}

int serve(std::vector<relay_cage> cages, const destination_check& check_destination, relay_limits limits,
          int control) {
    uring ring;
    {
        relay relay(ring, check_destination, limits);
        for (relay_cage& cage : cages) relay.add(std::move(cage));
        relay.offer({.port = 8080, .accepted = [](std::uint64_t, unique_fd connection) {
                         (void)::send(connection.get(), "agent\n", 6, MSG_NOSIGNAL);
                     }});
        task_group tasks([](const std::exception_ptr& error) { std::rethrow_exception(error); });
        tasks.spawn(
            [](uring& which, pinfold::relay& whose, int fd) -> task<> { co_await obey(which, whose, fd); },
            std::ref(ring), std::ref(relay), control);
        ring.run();
    }
    return ring.in_flight() == 0 ? 0 : 3;
}

} // namespace

relay_world::relay_world() : near_(new_space()), far_(new_space()) {
    static int made = 0;
    pins_ = fmt::format("/sys/fs/bpf/pinfold-relay-{}-{}", ::getpid(), made++);
    run(near_, fmt::format("ip link add near0 type veth peer name far0 netns /proc/{}/fd/{}", ::getpid(),
                           far_.get()));
    run(far_, far_commands);
    run(near_, near_commands);
    steering_ = std::make_unique<steering>(pins_);
}

relay_world::~relay_world() {
    for (const std::uint64_t id : cages_) steering_->release(id);
    steering_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(pins_, ignored);
}

cage_network relay_world::make_cage(std::uint64_t id) {
    cages_.push_back(id);
    return steering_->make(id);
}

relay_process::relay_process(relay_world& world, std::vector<served> cages,
                             const destination_check& check_destination, relay_limits limits,
                             std::size_t most_fds) {
    std::vector<relay_cage> given;
    for (served& each : cages) {
        cage_network network = world.make_cage(each.id);
        spaces_.emplace(each.id, std::move(network.space));
        given.push_back({each.id, each.mode, std::move(network.tun), std::move(network.listener),
                         std::move(each.resolvers)});
    }
    int ends[2] = {};
    check(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), "make the control socket");
    control_ = unique_fd(ends[0]);
    const unique_fd childs(ends[1]);
    pid_ = check(::fork(), "fork the relay");
    if (pid_ != 0) return;
    int status = 2;
    try {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        control_.reset();
        spaces_.clear();
        check(::setns(world.near().get(), CLONE_NEWNET), "enter the machine's namespace");
        if (most_fds != 0) {
            const rlimit limit{most_fds, most_fds};
            check(::setrlimit(RLIMIT_NOFILE, &limit), "lower the limit of files");
        }
        become_nobody();
        status = serve(std::move(given), check_destination, limits, childs.get());
    } catch (const std::exception& error) {
        fmt::print(stderr, "relay of the test: {}\n", error.what());
    }
    std::fflush(nullptr);
    ::_exit(status);
}

relay_process::~relay_process() {
    kill();
}

relay_figures relay_process::ask(char what, std::uint64_t id) const {
    const control_message message{what, id};
    relay_figures figures;
    check(::send(control_.get(), &message, sizeof message, MSG_NOSIGNAL), "ask the relay");
    if (::recv(control_.get(), &figures, sizeof figures, 0) != sizeof figures)
        fail("the relay does not answer");
    return figures;
}

void relay_process::pause(bool on) const {
    ::kill(pid_, on ? SIGSTOP : SIGCONT);
    if (on) ::waitpid(pid_, nullptr, WUNTRACED);
}

void relay_process::kill() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
}

int relay_process::stop() {
    const control_message message{'q', 0};
    (void)::send(control_.get(), &message, sizeof message, MSG_NOSIGNAL);
    int status = -1;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::size_t relay_process::proportional_bytes() const {
    std::ifstream rollup(fmt::format("/proc/{}/smaps_rollup", pid_));
    for (std::string word; rollup >> word;) {
        std::size_t kilobytes = 0;
        if (word == "Pss:" && rollup >> kilobytes) return kilobytes * 1024;
    }
    return 0;
}

std::size_t relay_process::times_woken() const {
    std::ifstream status(fmt::format("/proc/{}/status", pid_));
    for (std::string word; status >> word;) {
        std::size_t count = 0;
        if (word == "voluntary_ctxt_switches:" && status >> count) return count;
    }
    return 0;
}

double relay_process::cpu_milliseconds() const {
    // The clock of a process, from its pid: clock_getcpuclockid() without the library's check of permissions.
    timespec used{};
    const auto clock = static_cast<clockid_t>((~static_cast<unsigned>(pid_) << 3) | 2u);
    check(::clock_gettime(clock, &used), "read the relay's processor time");
    return static_cast<double>(used.tv_sec) * 1e3 + static_cast<double>(used.tv_nsec) / 1e6;
}

std::size_t relay_process::open_fds() const {
    (void)
        figures(); // an answer says that it has begun to serve: before, it is still opening and closing its own
    std::size_t count = 0;
    for (const auto& each : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid_)))
        count += each.exists();
    return count;
}

} // namespace pinfold::test
