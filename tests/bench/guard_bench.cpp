// What a guard costs: ns for each connect() of a UDP socket (nothing is sent) to a public address, in a network
// namespace that leads nowhere, without a guard and with 10, 1,000 and 100,000 prefixes in the tries, taken in turns.
#include "base/error.hpp"
#include "bench/figures.hpp"
#include "cage/guards.hpp"
#include "spec/cage_spec.hpp"

#include <arpa/inet.h>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace pinfold;
namespace fs = std::filesystem;

constexpr int connects = 20'000; // in one sample
constexpr int rounds = 15;

// Where cgroup v2 is mounted, by mountinfo: hybrid machines mount it elsewhere.
fs::path cgroup2() {
    std::ifstream mounts("/proc/self/mountinfo");
    for (std::string line; std::getline(mounts, line);) {
        if (line.find(" - cgroup2 ") == std::string::npos) continue;
        std::size_t begin = 0;
        for (int field = 0; field < 4; ++field) begin = line.find(' ', begin) + 1;
        return line.substr(begin, line.find(' ', begin) - begin);
    }
    fail("find a cgroup2 mount in /proc/self/mountinfo: there is none; mount one");
}

// Made for this run and removed with it.
class scratch_cgroup {
public:
    explicit scratch_cgroup(fs::path path) : path_(std::move(path)) {
        fs::create_directory(path_);
        fd_ = unique_fd(
            check(::open(path_.c_str(), O_DIRECTORY | O_RDONLY | O_CLOEXEC), "open {}", path_.native()));
    }
    scratch_cgroup(const scratch_cgroup&) = delete;
    scratch_cgroup& operator=(const scratch_cgroup&) = delete;
    ~scratch_cgroup() {
        fd_.reset();
        ::rmdir(path_.c_str());
    }
    [[nodiscard]] int fd() const { return fd_.get(); }
    void take_me() const { std::ofstream(path_ / "cgroup.procs") << 0; }

private:
    fs::path path_;
    unique_fd fd_;
};

void raise_loopback() {
    check(::unshare(CLONE_NEWNET), "make a network namespace");
    const unique_fd socket(check(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "make a socket"));
    ifreq request{};
    std::strncpy(request.ifr_name, "lo", IFNAMSIZ - 1);
    request.ifr_flags = IFF_UP;
    check(::ioctl(socket.get(), SIOCSIFFLAGS, &request), "raise lo");
    // A default route, so that a connect() has a source and a way, which ends in this namespace.
    check(std::system("ip route add default dev lo"), "add a default route");
}

// ns for each connect(); a child, so that only it is in the cgroup.
double sample(const scratch_cgroup* cgroup) {
    std::array<int, 2> ends{};
    check(::pipe2(ends.data(), O_CLOEXEC), "make a pipe");
    const unique_fd reader(ends[0]);
    unique_fd writer(ends[1]);
    const pid_t child = check(::fork(), "fork");
    if (child == 0) {
        if (cgroup != nullptr) cgroup->take_me();
        const int socket = ::socket(AF_INET, SOCK_DGRAM, 0);
        if (socket < 0) ::_exit(errno);
        sockaddr_in to{.sin_family = AF_INET, .sin_port = htons(443)};
        ::inet_pton(AF_INET, "93.184.216.34", &to.sin_addr);
        const std::int64_t begin = bench::now_ns();
        for (int i = 0; i < connects; ++i) {
            if (::connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) ::_exit(errno);
        }
        const double each = static_cast<double>(bench::now_ns() - begin) / connects;
        if (::write(writer.get(), &each, sizeof each) != sizeof each) ::_exit(EIO);
        ::_exit(0);
    }
    writer.reset();
    double each = 0;
    const ssize_t size = ::read(reader.get(), &each, sizeof each);
    int status = 0;
    check(::waitpid(child, &status, 0), "wait for the measured process");
    if (size != sizeof each || status != 0)
        fail("connect to a public address in the measured process: {}", std::strerror(WEXITSTATUS(status)));
    return each;
}

// Prefixes of the machine, /24s spread evenly over the address space, so that a lookup goes as deep into the trie as
// their number makes it; none holds the target.
std::vector<local_prefix> prefixes(std::uint32_t count) {
    std::vector<local_prefix> made;
    for (std::uint32_t i = 0; made.size() < count; ++i) {
        std::uint32_t reversed = 0;
        for (int bit = 0; bit < 24; ++bit) reversed |= (i >> bit & 1U) << (23 - bit);
        if (reversed == 0x5db8d8) continue; // 93.184.216.0/24
        const std::uint32_t address = htonl(reversed << 8);
        local_prefix prefix{.family = AF_INET, .length = 24};
        std::memcpy(prefix.address, &address, sizeof address);
        made.push_back(prefix);
    }
    return made;
}

bench::figures measure(const fs::path& pins, const std::string& name) {
    const scratch_cgroup top(cgroup2() / name);
    const scratch_cgroup anchor(cgroup2() / name /
                                "anchor"); // beside the cage: without a policy it denies all below it
    const scratch_cgroup cage(cgroup2() / name / "1");
    guards guarded(pins, anchor.fd());
    for (const guard which : all_guards) guarded.attach(which, cage.fd(), 1);
    guarded.write_policy(cage.fd(), 1, cage_mode::sealed);

    struct setting {
        std::string name;
        std::vector<local_prefix> prefixes;
        std::vector<double> samples;
    };
    std::vector<setting> settings;
    for (const std::uint32_t count : {10U, 1'000U, 100'000U})
        settings.push_back({fmt::format("guard_{}_prefixes", count), prefixes(count), {}});
    std::vector<double> without;
    for (int round = -1; round < rounds; ++round) { // one round to warm up
        const double none = sample(nullptr);
        if (round >= 0) without.push_back(none);
        for (setting& one : settings) {
            guarded.set_local_prefixes(one.prefixes);
            const double with = sample(&cage);
            if (round >= 0) one.samples.push_back(with);
        }
    }
    bench::figures figures;
    const double base = bench::percentile(without, 0.5);
    const double least = without.front(); // sorted by percentile()
    figures.add("no_guard_connect_p50_ns", base);
    figures.add("no_guard_connect_min_ns", least);
    for (setting& one : settings) {
        const double median = bench::percentile(one.samples, 0.5);
        figures.add(one.name + "_connect_p50_ns", median);
        figures.add(one.name + "_added_p50_ns", median - base);
        figures.add(one.name + "_added_min_ns", one.samples.front() - least);
    }
    figures.add("connects_in_a_sample", connects);
    figures.add("samples", rounds);
    guarded.detach(1);
    return figures;
}

} // namespace

int main() {
    const std::string name = fmt::format("pinfold-bench-{}", ::getpid());
    const fs::path pins = fs::path("/sys/fs/bpf") / name;
    int status = 0;
    try {
        raise_loopback();
        measure(pins, name).print();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench_guard: %s\n", error.what());
        status = 1;
    }
    std::error_code ignored;
    fs::remove_all(pins, ignored); // the programs' pins outlive their owner by design, but not this run
    return status;
}
