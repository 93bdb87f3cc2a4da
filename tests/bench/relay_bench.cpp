// The relay beside the machine's own network and pasta: bulk, connection latency, connections a second. One flat JSON.
//   bench_relay [--runs N] [--seconds of each bulk measure]
#include "bench/far_servers.hpp"
#include "spec/cage_spec.hpp"

#include <atomic>
#include <csignal>
#include <fcntl.h>
#include <functional>
#include <sys/prctl.h>
#include <sys/wait.h>

namespace pinfold::bench {

namespace {

constexpr int connects = 300, connect_turns = 10;

// In a user namespace of its own: as root of the machine it would become nobody, who may not open /dev/net/tun here.
const std::vector<std::string> pasta_command{
    "/usr/bin/unshare", "--user", "--map-root-user", "/usr/bin/pasta", "--config-net", "--foreground", "--"};

// The client's part: this program again, in whatever namespace it was started in. Prints numbers.

double bulk(std::uint16_t port, double seconds, bool up) {
    const unique_fd server = connected(port);
    std::vector<char> block(block_size);
    const std::int64_t begin = now_ns(), end = begin + static_cast<std::int64_t>(seconds * 1e9);
    double bytes = 0;
    while (now_ns() < end) {
        const ssize_t size = up ? ::send(server.get(), block.data(), block.size(), MSG_NOSIGNAL)
                                : ::recv(server.get(), block.data(), block.size(), 0);
        if (size <= 0) fail("a bulk transfer broke");
        bytes += static_cast<double>(size);
    }
    return bytes * 8 / static_cast<double>(now_ns() - begin); // bits a nanosecond = Gbit/s
}

double connections_a_second(double seconds) {
    std::atomic<int> count = 0;
    const std::int64_t begin = now_ns(), end = begin + static_cast<std::int64_t>(seconds * 1e9);
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < at_once; ++i)
            threads.emplace_back([&] {
                while (now_ns() < end) {
                    (void)one_connection();
                    ++count;
                }
            });
    }
    return count / (static_cast<double>(now_ns() - begin) / 1e9);
}

void run_client(const std::string& what, double seconds) {
    if (what == "up")
        fmt::print("{}\n", bulk(sink_port, seconds, true));
    else if (what == "down")
        fmt::print("{}\n", bulk(source_port, seconds, false));
    else if (what == "many")
        fmt::print("{}\n", connections_a_second(seconds));
    else
        for (int i = 0; i < connects; ++i) fmt::print("{}\n", one_connection());
}

std::vector<double> measure(const unique_fd& space, const std::vector<std::string>& wrapper, const char* what,
                            double seconds) {
    int ends[2] = {};
    check(::pipe2(ends, O_CLOEXEC), "make a pipe");
    const unique_fd reading(ends[0]);
    unique_fd writing(ends[1]);
    const pid_t pid = check(::fork(), "fork a client");
    if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::setns(space.get(), CLONE_NEWNET) < 0 || ::dup2(writing.get(), STDOUT_FILENO) < 0) ::_exit(1);
        std::vector<std::string> words = wrapper;
        words.insert(words.end(), {std::filesystem::read_symlink("/proc/self/exe"), "--client", what,
                                   std::to_string(seconds)});
        std::vector<char*> argv;
        for (std::string& word : words) argv.push_back(word.data());
        argv.push_back(nullptr);
        const unique_fd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
        if (!wrapper.empty()) ::dup2(nowhere.get(), STDERR_FILENO); // pasta tells a long story
        ::execv(argv[0], argv.data());
        ::_exit(1);
    }
    writing.reset();
    std::string text;
    std::array<char, 65536> part{};
    constexpr int patience_ms = 30'000;
    while (test::is_there(reading, patience_ms)) {
        const ssize_t size = ::read(reading.get(), part.data(), part.size());
        if (size <= 0) break;
        text.append(part.data(), static_cast<std::size_t>(size));
    }
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    std::vector<double> values;
    for (char* at = text.data(); *at != '\0';) {
        char* end = at;
        values.push_back(std::strtod(at, &end));
        if (end == at) break;
        at = *end == '\n' ? end + 1 : end;
    }
    return values;
}

struct results {
    std::vector<double> up, down, many, connect;

    void add_to(figures& all, const std::string& name) {
        if (up.empty()) return;
        all.add(name + "_up_gbit_s", percentile(up, 0.5));
        all.add(name + "_down_gbit_s", percentile(down, 0.5));
        all.add(name + "_connect_p50_us", percentile(connect, 0.50));
        all.add(name + "_connect_p99_us", percentile(connect, 0.99));
        all.add(name + "_connections_s", percentile(many, 0.5));
    }
};

void append(std::vector<double>& to, const std::vector<double>& from) {
    to.insert(to.end(), from.begin(), from.end());
}

void run(int rounds, double seconds) {
    test::relay_world world;
    test::relay_process relay(world, {{.mode = cage_mode::caged}});
    const pid_t servers = start_servers(world.far());
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    results native, caged, pasta;
    double connect_cpu = 0, up_cpu = 0, up_bytes = 0, down_cpu = 0, down_bytes = 0;
    const bool with_pasta = ::access("/usr/bin/pasta", X_OK) == 0;
    const auto all_of = [&](results& into, const unique_fd& space, const std::vector<std::string>& wrapper) {
        append(into.many, measure(space, wrapper, "many", seconds));
        append(into.up, measure(space, wrapper, "up", seconds));
        append(into.down, measure(space, wrapper, "down", seconds));
    };
    // A connection is short beside what else happens on a machine: many short turns meet the same noise.
    const auto connect_by_turns = [&] {
        append(native.connect, measure(world.near(), {}, "connect", seconds));
        const double cpu = relay.cpu_milliseconds();
        append(caged.connect, measure(relay.cage(), {}, "connect", seconds));
        connect_cpu += relay.cpu_milliseconds() - cpu;
        if (with_pasta) append(pasta.connect, measure(world.near(), pasta_command, "connect", seconds));
    };
    for (int round = 0; round < rounds; ++round) {
        for (int turn = 0; turn < connect_turns; ++turn) connect_by_turns();
        all_of(native, world.near(), {});
        const auto before = relay.figures();
        append(caged.many, measure(relay.cage(), {}, "many", seconds));
        double cpu = relay.cpu_milliseconds();
        append(caged.up, measure(relay.cage(), {}, "up", seconds));
        up_cpu += relay.cpu_milliseconds() - cpu;
        cpu = relay.cpu_milliseconds();
        append(caged.down, measure(relay.cage(), {}, "down", seconds));
        down_cpu += relay.cpu_milliseconds() - cpu;
        const auto after = relay.figures();
        up_bytes += static_cast<double>(after.bytes_up - before.bytes_up);
        down_bytes += static_cast<double>(after.bytes_down - before.bytes_down);
        if (with_pasta) all_of(pasta, world.near(), pasta_command);
    }
    ::kill(servers, SIGKILL);
    ::waitpid(servers, nullptr, 0);
    figures all;
    native.add_to(all, "native");
    caged.add_to(all, "relay");
    all.add("relay_connect_cpu_us", connect_cpu * 1e3 / (rounds * connect_turns * connects));
    all.add("relay_up_cpu_ms_gb", up_cpu / (up_bytes / 1e9));
    all.add("relay_down_cpu_ms_gb", down_cpu / (down_bytes / 1e9));
    pasta.add_to(all, "pasta");
    all.add("relay_pss_kib", static_cast<double>(relay.proportional_bytes()) / 1024);
    all.print();
}

} // namespace
} // namespace pinfold::bench

int main(int count, char** words) {
    try {
        const std::vector<std::string> all(words, words + count);
        if (count == 4 && all[1] == "--client") {
            pinfold::bench::run_client(all[2], std::stod(all[3]));
            return 0;
        }
        int runs = 3;
        double seconds = 2;
        for (std::size_t i = 1; i + 1 < all.size(); i += 2) {
            if (all[i] == "--runs")
                runs = std::stoi(all[i + 1]);
            else if (all[i] == "--seconds")
                seconds = std::stod(all[i + 1]);
            else
                pinfold::fail("unknown argument {}; there are --runs and --seconds", all[i]);
        }
        pinfold::bench::run(runs, seconds);
    } catch (const std::exception& error) {
        fmt::print(stderr, "bench_relay: {}\n", error.what());
        return 1;
    }
}
