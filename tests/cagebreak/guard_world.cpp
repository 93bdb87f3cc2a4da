#include "cagebreak/guard_world.hpp"

#include "cage/netlink.hpp"

#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <spawn.h>
#include <sys/uio.h>

namespace pinfold::test {
namespace {

void add_any_address(netlink_batch& batch, std::uint8_t family) {
    rtmsg route = {};
    route.rtm_family = family;
    route.rtm_table = RT_TABLE_MAIN;
    route.rtm_protocol = RTPROT_STATIC;
    route.rtm_scope = RT_SCOPE_HOST;
    route.rtm_type = RTN_LOCAL;
    batch.begin(RTM_NEWROUTE, NLM_F_CREATE, route, "make every address local");
    batch.put(RTA_OIF, std::uint32_t{1});
}

unique_fd make_space() {
    unique_fd space;
    std::exception_ptr error;
    std::thread([&] {
        try {
            check(::unshare(CLONE_NEWNET), "make a namespace");
            space = unique_fd(
                check(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC), "open a namespace"));
            const unique_fd range(::open("/proc/sys/net/ipv4/ping_group_range", O_WRONLY | O_CLOEXEC));
            check(::write(range.get(), "0 2147483647", 12), "allow ping sockets");
            netlink_batch batch;
            ifinfomsg lo = {};
            lo.ifi_index = 1;
            lo.ifi_flags = lo.ifi_change = IFF_UP;
            batch.begin(RTM_NEWLINK, 0, lo, "set lo up");
            add_any_address(batch, AF_INET);
            add_any_address(batch, AF_INET6);
            netlink_socket().carry_out(batch);
        } catch (...) {
            error = std::current_exception();
        }
    }).join();
    if (error) std::rethrow_exception(error);
    return space;
}

unique_fd bound(const address& where, int type) {
    unique_fd socket = socket_of(where.storage.ss_family, type | SOCK_NONBLOCK);
    const int on = 1;
    check(::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), "SO_REUSEADDR");
    if (where.storage.ss_family == AF_INET6)
        check(::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on), "IPV6_V6ONLY");
    check(::bind(socket.get(), where.get(), where.size), "bind a sink to {}", where.text());
    if (type == SOCK_STREAM) check(::listen(socket.get(), 64), "listen");
    return socket;
}

std::size_t drain(int fd) {
    std::size_t bytes = 0;
    char buffer[65536];
    for (ssize_t got = 0; (got = ::recv(fd, buffer, sizeof buffer, MSG_DONTWAIT)) > 0;)
        bytes += static_cast<std::size_t>(got);
    return bytes;
}

int result_of(ssize_t result) {
    return result < 0 ? errno : 0;
}

unique_fd make(int family, int type) {
    return unique_fd(::socket(family, type | SOCK_CLOEXEC, 0));
}

std::string mapped(const std::string& host) {
    return host.find(':') == std::string::npos ? "::ffff:" + host : host;
}

int tcp(const std::string& host, std::uint16_t port) {
    const address to = at(host, port);
    const unique_fd socket = make(to.storage.ss_family, SOCK_STREAM);
    if (!socket || ::connect(socket.get(), to.get(), to.size) < 0) return errno;
    return result_of(::send(socket.get(), "x", 1, MSG_NOSIGNAL));
}

int tcp_mapped(const std::string& host, std::uint16_t port) {
    return tcp(mapped(host), port);
}

int tcp_fast_open(const std::string& host, std::uint16_t port) {
    const address to = at(host, port);
    const unique_fd socket = make(to.storage.ss_family, SOCK_STREAM);
    return result_of(::sendto(socket.get(), "x", 1, MSG_FASTOPEN | MSG_NOSIGNAL, to.get(), to.size));
}

int udp(const std::string& host, std::uint16_t port) {
    const address to = at(host, port);
    const unique_fd socket = make(to.storage.ss_family, SOCK_DGRAM);
    return result_of(::sendto(socket.get(), "x", 1, 0, to.get(), to.size));
}

int udp_mapped(const std::string& host, std::uint16_t port) {
    return udp(mapped(host), port);
}

int udp_connected(const std::string& host, std::uint16_t port) {
    const address to = at(host, port);
    const unique_fd socket = make(to.storage.ss_family, SOCK_DGRAM);
    if (::connect(socket.get(), to.get(), to.size) < 0) return errno;
    return result_of(::send(socket.get(), "x", 1, 0));
}

int udp_connected_mapped(const std::string& host, std::uint16_t port) {
    return udp_connected(mapped(host), port);
}

int send_many(const std::string& host, std::uint16_t port) {
    address to = at(host, port);
    const unique_fd socket = make(to.storage.ss_family, SOCK_DGRAM);
    iovec data = {.iov_base = const_cast<char*>("x"), .iov_len = 1};
    mmsghdr messages[2] = {};
    for (mmsghdr& message : messages)
        message.msg_hdr = {.msg_name = to.get(), .msg_namelen = to.size, .msg_iov = &data, .msg_iovlen = 1};
    return result_of(::sendmmsg(socket.get(), messages, 2, 0));
}

// An AF_INET socket takes AF_UNSPEC for AF_INET; an AF_INET6 one takes it for "no address", so that is not tried.
int udp_without_family(const std::string& host, std::uint16_t port) {
    address to = at(host, port);
    const unique_fd socket = make(to.storage.ss_family, SOCK_DGRAM);
    if (to.storage.ss_family == AF_INET) to.storage.ss_family = AF_UNSPEC;
    return result_of(::sendto(socket.get(), "x", 1, 0, to.get(), to.size));
}

// An AF_INET6 socket takes AF_INET addresses.
int udp_four_on_six(const std::string& host, std::uint16_t port) {
    const address to = at(host, port);
    const unique_fd socket = make(AF_INET6, SOCK_DGRAM);
    return result_of(::sendto(socket.get(), "x", 1, 0, to.get(), to.size));
}

int udp_four_on_six_connected(const std::string& host, std::uint16_t port) {
    const address to = at(host, port);
    const unique_fd socket = make(AF_INET6, SOCK_DGRAM);
    if (::connect(socket.get(), to.get(), to.size) < 0) return errno;
    return result_of(::send(socket.get(), "x", 1, 0));
}

// Connected to what is allowed (the own loopback), disconnected, and connected again.
int udp_reconnected(const std::string& host, std::uint16_t port) {
    const address to = at(host, port);
    const address own = at(to.storage.ss_family == AF_INET ? "127.0.0.1" : "::1", 1);
    const sockaddr nowhere = {.sa_family = AF_UNSPEC, .sa_data = {}};
    const unique_fd socket = make(to.storage.ss_family, SOCK_DGRAM);
    if (::connect(socket.get(), own.get(), own.size) < 0) return errno;
    if (::connect(socket.get(), &nowhere, sizeof nowhere) < 0) return errno;
    if (::connect(socket.get(), to.get(), to.size) < 0) return errno;
    return result_of(::send(socket.get(), "x", 1, 0));
}

// Connected to what is allowed, but sending to somewhere else.
int udp_past_its_peer(const std::string& host, std::uint16_t port) {
    const address to = at(host, port);
    const address own = at(to.storage.ss_family == AF_INET ? "127.0.0.1" : "::1", 1);
    const unique_fd socket = make(to.storage.ss_family, SOCK_DGRAM);
    // Bound first: connecting to the loopback would else take a source from which nothing else can be reached.
    const address any = at(to.storage.ss_family == AF_INET ? "0.0.0.0" : "::", 0);
    if (::bind(socket.get(), any.get(), any.size) < 0) return errno;
    if (::connect(socket.get(), own.get(), own.size) < 0) return errno;
    return result_of(::sendto(socket.get(), "x", 1, 0, to.get(), to.size));
}

} // namespace

const std::vector<named_way> ways{
    {"tcp", tcp, true},
    {"tcp, v4-mapped", tcp_mapped, true},
    {"tcp fast open", tcp_fast_open, true},
    {"udp", udp, false},
    {"udp, v4-mapped", udp_mapped, false},
    {"udp, connected", udp_connected, false},
    {"udp, connected, v4-mapped", udp_connected_mapped, false},
    {"sendmmsg", send_many, false},
    {"udp, AF_UNSPEC", udp_without_family, false},
    {"udp, AF_INET on AF_INET6", udp_four_on_six, false},
    {"udp, AF_INET on AF_INET6, connected", udp_four_on_six_connected, false},
    {"udp, connected again", udp_reconnected, false},
    {"udp, past its peer", udp_past_its_peer, false},
};

sinks::sinks() : space_(make_space()) {
    inside(space_, [&] {
        for (const std::uint16_t port : {sink_port, agent_port}) {
            for (const char* host : {"0.0.0.0", "::"}) {
                datagrams_.push_back(bound(at(host, port), SOCK_DGRAM));
                listeners_.push_back(bound(at(host, port), SOCK_STREAM));
            }
        }
        return 0;
    });
}

std::size_t sinks::arrived() {
    std::size_t bytes = 0;
    for (const unique_fd& socket : datagrams_) bytes += drain(socket.get());
    for (const unique_fd& listener : listeners_) {
        // The process that sent has ended, so all of its bytes are here, and its end too.
        while (const unique_fd accepted{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)})
            bytes += drain(accepted.get());
    }
    return bytes;
}

int run_in(const scratch_cgroup& cgroup, const unique_fd& space, const std::function<int()>& act,
           pid_t* pid) {
    const pid_t child = check(::fork(), "fork");
    if (child == 0) {
        // Nothing of the test framework may run here: the answer is the exit code, 255 a failure of the set-up.
        const std::string own = std::to_string(::getpid());
        const int procs = ::openat(cgroup.fd(), "cgroup.procs", O_WRONLY | O_CLOEXEC);
        if (procs < 0 || ::write(procs, own.data(), own.size()) < 0 || ::setns(space.get(), CLONE_NEWNET) < 0)
            ::_exit(255);
        ::_exit(act());
    }
    if (pid) *pid = child;
    int status = 0;
    check(::waitpid(child, &status, 0), "wait for a probe");
    if (!WIFEXITED(status) || WEXITSTATUS(status) == 255)
        fail("a probe could not be set up: status {}", status);
    return WEXITSTATUS(status);
}

std::string output_of(const std::vector<std::string>& command) {
    int ends[2];
    check(::pipe2(ends, O_CLOEXEC), "make a pipe");
    const unique_fd from(ends[0]);
    unique_fd to(ends[1]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, to.get(), 1);
    ::posix_spawn_file_actions_adddup2(&actions, to.get(), 2);
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
    char* environment[] = {path, nullptr};
    pid_t child = 0;
    const int error = ::posix_spawnp(&child, command.front().c_str(), &actions, nullptr, arguments.data(),
                                     environment);
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0) SKIP(command.front() + " in PATH");
    to.reset();
    std::string output;
    char buffer[4096];
    for (ssize_t got = 0; (got = ::read(from.get(), buffer, sizeof buffer)) > 0;)
        output.append(buffer, static_cast<std::size_t>(got));
    int status = 0;
    check(::waitpid(child, &status, 0), "wait for {}", command.front());
    return output;
}

} // namespace pinfold::test
