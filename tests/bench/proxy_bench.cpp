// The proxy socket of a cage beside nginx that proxies from a Unix socket, to the same upstream, in turns, on the same two
// cores: requests a second and their time; what a cage costs in memory; and a cage that holds its socket's connections open.
#include "agent/proxy/proxy.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "figures.hpp"
#include "proxy_load.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <netinet/in.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>

namespace pinfold::bench {

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr const char* upstream_address = "fd12::7";
constexpr std::size_t connections = 32, idle_cages = 256, half_open = 5000;
constexpr int cores = 2;

// A process of ours that ends with this one.
class side {
public:
    explicit side(const std::function<void()>& body) : pid_(check(::fork(), "fork")) {
        if (pid_ != 0) return;
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        try {
            body();
        } catch (const std::exception& error) {
            std::fprintf(stderr, "%s\n", error.what());
        }
        ::_exit(1);
    }
    side(const side&) = delete;
    side& operator=(const side&) = delete;
    ~side() {
        ::kill(pid_, SIGTERM); // nginx ends its workers by it
        if (::waitpid(pid_, nullptr, WNOHANG) == pid_) return;
        std::this_thread::sleep_for(300ms);
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    [[nodiscard]] double pss_kib() const {
        std::ifstream from(fmt::format("/proc/{}/smaps_rollup", pid_));
        for (std::string word; from >> word;)
            if (double value = 0; word == "Pss:" && from >> value) return value;
        return 0;
    }

private:
    pid_t pid_;
};

void leave_the_network() {
    check(::unshare(CLONE_NEWNET), "leave the machine's network");
    for (const char* command : {"ip link set lo up", "ip -6 addr add fd12::7/128 dev lo nodad",
                                "ip -6 addr add fd12::1/128 dev lo nodad"})
        if (std::system(command) != 0) fail("{} failed", command);
    cpu_set_t two{};
    CPU_ZERO(&two);
    for (int i = 0; i < cores; ++i) CPU_SET(i, &two);
    ::sched_setaffinity(0, sizeof two, &two);
    const rlimit files{.rlim_cur = 1U << 16U, .rlim_max = 1U << 16U};
    ::setrlimit(RLIMIT_NOFILE, &files);
}

unique_fd listen_upstream() {
    unique_fd made(check(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), "make a socket"));
    sockaddr_in6 at{.sin6_family = AF_INET6, .sin6_port = htons(7387)};
    ::inet_pton(AF_INET6, upstream_address, &at.sin6_addr);
    check(::bind(made.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at), "bind the upstream");
    check(::listen(made.get(), 512), "listen as the upstream");
    return made;
}

void run_proxy(const fs::path& folder, std::size_t cages) {
    uring ring;
    task_group group([](const std::exception_ptr&) {});
    proxy doors(ring, group,
                {.machines = {.peers = folder / "peers.json", .daemon = {}, .name = "laptop"},
                 .own_agent = folder / "none.sock"});
    for (std::size_t i = 0; i < cages; ++i)
        doors.open(folder / fmt::format("cage-{}", i),
                   [name = fmt::format("w{}", i)] { return proxy_asker{.session = name}; });
    while (true) ring.run_once(true);
}

void run_nginx(const fs::path& folder) {
    std::ofstream(folder / "nginx.conf") << fmt::format(R"(worker_processes {0};
error_log {1}/nginx.log;
pid {1}/nginx.pid;
user root;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    upstream agent {{ server [{2}]:7387; keepalive 64; keepalive_requests 1000000000; }}
    server {{
        listen unix:{1}/nginx.sock;
        location /peer/{2}/ {{
            proxy_pass http://agent/;
            proxy_http_version 1.1;
            proxy_buffering off;
            proxy_set_header Connection "";
            proxy_set_header X-Shrooms-Caged w0;
        }}
    }}
}}
)",
                                                        cores, folder.native(), upstream_address);
    const std::string prefix = folder, file = folder / "nginx.conf";
    ::execl("/usr/sbin/nginx", "nginx", "-p", prefix.c_str(), "-c", file.c_str(), "-g", "daemon off;",
            nullptr);
    fail_errno(errno, "run nginx");
}

void wait_for(const fs::path& socket) {
    for (int i = 0; i < 500; ++i) {
        if (fs::exists(socket) && connect_local(socket, false)) return;
        std::this_thread::sleep_for(20ms);
    }
    fail("nobody listens at {}", socket.native());
}

std::string get() {
    return fmt::format("GET /peer/{}/v1/sessions HTTP/1.1\r\nHost: cage\r\n\r\n", upstream_address);
}

std::string ask() {
    const std::string body = fmt::format(
        R"({{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{{"message":{{"messageId":"m-1","role":"ROLE_USER",)"
        R"("parts":[{{"text":"{}"}}],"metadata":{{"shrooms/title":"a look"}}}},"configuration":{{"blocking":true}}}}}})",
        std::string(800, 'y'));
    return fmt::format("POST /peer/{}/a2a/rev HTTP/1.1\r\nHost: cage\r\nContent-Type: application/json\r\n"
                       "Content-Length: {}\r\n\r\n{}",
                       upstream_address, body.size(), body);
}

struct measured {
    std::vector<double> rates, p50s, p99s;
    std::size_t failed = 0;
    void add(load_result one) {
        rates.push_back(one.requests_s);
        p50s.push_back(percentile(one.latencies_us, 0.5));
        p99s.push_back(percentile(one.latencies_us, 0.99));
        failed += one.failed;
    }
    void tell(figures& to, const std::string& name) {
        to.add(name + "_requests_s", percentile(rates, 0.5));
        to.add(name + "_p50_us", percentile(p50s, 0.5));
        to.add(name + "_p99_us", percentile(p99s, 0.5));
        if (failed > 0) fail("{}: {} requests failed", name, failed);
    }
};

void compare(figures& to, const fs::path& folder, int runs) {
    for (const auto& [name, question] : {std::pair{"get", get()}, {"ask", ask()}}) {
        measured own, nginx;
        for (int i = 0; i < runs; ++i) { // in turns: what else the machine does is shared
            own.add(put_load(folder / "cage-0/proxy.sock", question, connections, 500ms, 2s));
            nginx.add(put_load(folder / "nginx.sock", question, connections, 500ms, 2s));
        }
        own.tell(to, fmt::format("proxy_{}", name));
        nginx.tell(to, fmt::format("nginx_{}", name));
    }
}

// The p99 of one cage alone and beside another that holds what connections it gets half-open, in turns.
void crowd(figures& to, const fs::path& folder, int runs) {
    measured alone, beside;
    std::size_t most = 0;
    for (int i = 0; i < runs; ++i) {
        alone.add(put_load(folder / "cage-0/proxy.sock", ask(), 8, 300ms, 2s));
        std::vector<unique_fd> held;
        std::size_t asked = 0;
        for (; asked < half_open; ++asked) {
            unique_fd one = connect_local(folder / "cage-1/proxy.sock", false);
            if (!one) { // its queue is full: a moment for the proxy to take what it takes
                if (held.size() < proxy::most_connections) std::this_thread::sleep_for(1ms);
                continue;
            }
            std::ignore = ::send(one.get(), "GET /machines HT", 16, MSG_NOSIGNAL);
            held.push_back(std::move(one));
        }
        most = std::max(most, held.size());
        beside.add(put_load(folder / "cage-0/proxy.sock", ask(), 8, 300ms, 2s));
    }
    to.add("half_open_connections", static_cast<double>(half_open));
    to.add("half_open_connections_held", static_cast<double>(most));
    alone.tell(to, "alone");
    beside.tell(to, "beside_half_open");
}

void weigh(figures& to, const fs::path& folder) {
    const auto cost = [&](std::size_t cages) {
        const fs::path place = folder / fmt::format("weigh-{}", cages);
        fs::create_directories(place);
        fs::copy_file(folder / "peers.json", place / "peers.json");
        const side proxy([&] { run_proxy(place, cages); });
        wait_for(place / fmt::format("cage-{}/proxy.sock", cages - 1));
        std::vector<double> each{proxy.pss_kib()};
        std::vector<unique_fd> held; // and each with a connection that was used and is kept
        for (std::size_t i = 0; i < cages; ++i) {
            held.push_back(connect_local(place / fmt::format("cage-{}/proxy.sock", i)));
            const std::string question = ask();
            std::ignore = ::send(held.back().get(), question.data(), question.size(), MSG_NOSIGNAL);
            std::array<char, 4096> answer{};
            if (::recv(held.back().get(), answer.data(), answer.size(), 0) <= 0)
                fail("cage {} has no answer", i);
        }
        each.push_back(proxy.pss_kib());
        return each;
    };
    const std::vector<double> one = cost(1), many = cost(idle_cages);
    to.add("cages", static_cast<double>(idle_cages));
    to.add("memory_per_cage_kib", (many[0] - one[0]) / static_cast<double>(idle_cages - 1));
    to.add("memory_per_cage_with_connection_kib", (many[1] - one[1]) / static_cast<double>(idle_cages - 1));
}

int measure(int runs) {
    if (!fs::exists("/usr/sbin/nginx")) fail("nginx is missing: run 'sudo tools/setup --set bench'");
    leave_the_network();
    std::string pattern = "/tmp/pinfold-bench-proxy-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) fail_errno(errno, "make a directory in /tmp");
    const fs::path folder = pattern;
    std::ofstream(folder / "peers.json")
        << R"({"machines": [{"name": "laptop", "addr": "fd12::1"}, {"name": "pi5", "addr": "fd12::7"}]})";
    figures made;
    {
        const unique_fd listener = listen_upstream();
        const side upstream([&] { serve_upstream(listener); });
        const side nginx([&] { run_nginx(folder); });
        const side own([&] { run_proxy(folder, 2); });
        wait_for(folder / "nginx.sock");
        wait_for(folder / "cage-1/proxy.sock");
        compare(made, folder, runs);
        crowd(made, folder, runs);
        weigh(made, folder);
    }
    fs::remove_all(folder);
    made.print();
    return 0;
}

} // namespace

} // namespace pinfold::bench

int main(int argc, char* argv[]) {
    try {
        return pinfold::bench::measure(argc > 1 ? std::max(1, std::atoi(argv[1])) : 3);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
