// The relay under a crowd: how evenly busy cages share it, and what one that floods takes from its neighbour. One flat
// JSON.   bench_crowd [--cages N] [--seconds of each measure]
#include "bench/far_servers.hpp"
#include "spec/cage_spec.hpp"

#include <atomic>
#include <fcntl.h>
#include <latch>
#include <sys/resource.h>
#include <sys/wait.h>
#include <tuple>

namespace pinfold::bench {

namespace {

constexpr std::uint64_t flooder = 1, neighbour = 2;

void enter(const unique_fd& space) {
    check(::setns(space.get(), CLONE_NEWNET), "enter a cage's network");
}

// ---- fair shares ----

// Bytes that each of these cages moved in the same time, all of them at once: a stream each.
std::vector<double> shares(const test::relay_process& relay, std::uint64_t cages, std::uint16_t port, bool up,
                           double seconds) {
    std::vector<double> bytes(cages);
    std::vector<std::string> errors(cages);
    std::latch connected_all(static_cast<std::ptrdiff_t>(cages));
    std::atomic<bool> counting = false;
    std::atomic<bool> over = false;
    std::vector<std::jthread> threads;
    for (std::uint64_t i = 0; i < cages; ++i)
        threads.emplace_back([&, i] {
            try {
                enter(relay.cage(i + 1));
                const unique_fd server = connected(port);
                connected_all.count_down();
                std::vector<char> block(16 * 1024);
                while (!over) {
                    const ssize_t size = up ? ::send(server.get(), block.data(), block.size(), MSG_NOSIGNAL)
                                            : ::recv(server.get(), block.data(), block.size(), 0);
                    if (size <= 0) fail("the stream of cage {} broke", i + 1);
                    if (counting) bytes[i] += static_cast<double>(size);
                }
                test::reset_on_close(server); // its end waits for nobody
            } catch (const std::exception& error) {
                errors[i] = error.what();
                connected_all.count_down();
            }
        });
    connected_all.wait();
    const auto for_seconds = [](double some) {
        std::this_thread::sleep_for(std::chrono::duration<double>(some));
    };
    for_seconds(1); // until every window is open
    counting = true;
    for_seconds(seconds);
    counting = false;
    over = true;
    threads.clear();
    for (const std::string& error : errors)
        if (!error.empty()) fail("{}", error);
    return bytes;
}

void add_shares(figures& all, const std::string& name, std::vector<double> bytes, double seconds) {
    double sum = 0, squares = 0;
    for (const double each : bytes) {
        sum += each;
        squares += each * each;
    }
    const auto count = static_cast<double>(bytes.size());
    const double mean = sum / count;
    all.add(name + "_gbit_s", sum * 8 / seconds / 1e9);
    all.add(name + "_least_share", percentile(bytes, 0) / mean);
    all.add(name + "_p05_share", percentile(bytes, 0.05) / mean);
    all.add(name + "_p95_share", percentile(bytes, 0.95) / mean);
    all.add(name + "_most_share", percentile(bytes, 1) / mean);
    all.add(name + "_jain_index", sum * sum / (count * squares)); // 1 = all the same
}

// ---- one that floods ----

// Everything at once that a cage can do to the relay: SYNs without end, datagrams from ever new ports, streams that
// are never read, streams of single bytes.
class flood {
public:
    explicit flood(const unique_fd& cage) : cage_(cage) {
        for (const auto act : {&flood::syns, &flood::datagrams, &flood::never_reads, &flood::single_bytes})
            threads_.emplace_back([this, act] {
                try {
                    enter(cage_);
                    (this->*act)();
                } catch (const std::exception& error) {
                    fmt::print(stderr, "bench_crowd: the flood: {}\n", error.what());
                }
            });
    }
    flood(const flood&) = delete;
    flood& operator=(const flood&) = delete;
    ~flood() { over_ = true; }

private:
    static unique_fd make(int type) {
        return unique_fd(check(::socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "make a socket"));
    }
    void syns() {
        std::vector<unique_fd> open(256);
        for (std::size_t i = 0; !over_; i = (i + 1) % open.size()) {
            open[i] = make(SOCK_STREAM);
            std::ignore = test::connect_to(open[i].get(), test::at(test::place::web4, sink_port));
        }
    }
    void datagrams() {
        const std::array<char, 64> some{};
        for (std::uint16_t port = 10'000; !over_; ++port) {
            const unique_fd made = make(SOCK_DGRAM);
            if (test::connect_to(made.get(), test::at(test::place::web4, port)) == 0)
                std::ignore = ::send(made.get(), some.data(), some.size(), MSG_NOSIGNAL);
        }
    }
    // Its own SYNs are in its way: then the next try.
    [[nodiscard]] unique_fd connected_at_last(std::uint16_t port) const {
        while (!over_) {
            try {
                return connected(port);
            } catch (const std::exception&) {
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
            }
        }
        return {};
    }
    void never_reads() {
        std::vector<unique_fd> open;
        while (!over_) {
            if (open.size() < 64) open.push_back(connected_at_last(source_port));
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
        for (const unique_fd& each : open)
            if (each) test::reset_on_close(each);
    }
    void single_bytes() {
        while (!over_) {
            const unique_fd server = connected_at_last(sink_port);
            while (!over_ && ::send(server.get(), "x", 1, MSG_NOSIGNAL) == 1) continue;
        }
    }

    const unique_fd& cage_;
    std::atomic<bool> over_ = false;
    std::vector<std::jthread> threads_;
};

// As many threads as a flood has, which take processor time and touch no network: what is the machine's, not ours.
class spin {
public:
    spin() {
        for (int i = 0; i < 4; ++i)
            threads_.emplace_back([this] {
                while (!over_) continue;
            });
    }
    spin(const spin&) = delete;
    spin& operator=(const spin&) = delete;
    ~spin() { over_ = true; }

private:
    std::atomic<bool> over_ = false;
    std::vector<std::jthread> threads_;
};

std::vector<double> connections(const unique_fd& cage, double seconds) {
    return test::inside(cage, [&] {
        std::vector<double> times;
        const std::int64_t end = now_ns() + static_cast<std::int64_t>(seconds * 1e9);
        while (now_ns() < end) times.push_back(one_connection());
        return times;
    });
}

void add_times(figures& all, const std::string& name, std::vector<double> times) {
    all.add(name + "_connect_p50_us", percentile(times, 0.50));
    all.add(name + "_connect_p99_us", percentile(times, 0.99));
}

void run(std::uint64_t cages, double seconds) {
    const rlimit many{.rlim_cur = 65536, .rlim_max = 65536};
    ::setrlimit(RLIMIT_NOFILE, &many);
    test::relay_world world;
    std::vector<test::served> all_served;
    for (std::uint64_t id = 1; id <= cages; ++id) all_served.push_back({.id = id, .mode = cage_mode::caged});
    test::relay_process relay(world, all_served);
    const pid_t servers = start_servers(world.far(), static_cast<int>(cages) + 80);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    figures all;
    all.add("busy_cages", static_cast<double>(cages));
    const std::size_t pss = relay.proportional_bytes();
    add_shares(all, "one_up", shares(relay, 1, sink_port, true, seconds), seconds);
    add_shares(all, "crowd_up", shares(relay, cages, sink_port, true, seconds), seconds);
    add_shares(all, "one_down", shares(relay, 1, source_port, false, seconds), seconds);
    add_shares(all, "crowd_down", shares(relay, cages, source_port, false, seconds), seconds);
    add_times(all, "alone", connections(relay.cage(neighbour), seconds));
    {
        const spin others;
        add_times(all, "beside_spin", connections(relay.cage(neighbour), seconds));
    }
    {
        const flood others(relay.cage(flooder));
        std::this_thread::sleep_for(std::chrono::seconds(1));
        add_times(all, "beside_flood", connections(relay.cage(neighbour), seconds));
        all.add("flooded_pss_kib", static_cast<double>(relay.proportional_bytes()) / 1024);
    }
    add_times(all, "afterwards", connections(relay.cage(neighbour), seconds));
    all.add("relay_pss_kib", static_cast<double>(pss) / 1024);
    ::kill(servers, SIGKILL);
    ::waitpid(servers, nullptr, 0);
    all.print();
}

} // namespace
} // namespace pinfold::bench

int main(int count, char** words) {
    try {
        const std::vector<std::string> all(words, words + count);
        std::uint64_t cages = 200;
        double seconds = 5;
        for (std::size_t i = 1; i + 1 < all.size(); i += 2) {
            if (all[i] == "--cages")
                cages = std::stoul(all[i + 1]);
            else if (all[i] == "--seconds")
                seconds = std::stod(all[i + 1]);
            else
                pinfold::fail("unknown argument {}; there are --cages and --seconds", all[i]);
        }
        if (cages < 2) pinfold::fail("a crowd is of two cages at least, not {}", cages);
        pinfold::bench::run(cages, seconds);
    } catch (const std::exception& error) {
        fmt::print(stderr, "bench_crowd: {}\n", error.what());
        return 1;
    }
}
