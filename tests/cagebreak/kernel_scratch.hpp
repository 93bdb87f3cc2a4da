// Kernel objects of one test, gone when it ends: a folder of pins, a cgroup, a network namespace without any uplink.
#pragma once

#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "support/catch.hpp"

#include <arpa/inet.h>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <netinet/in.h>
#include <sched.h>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace pinfold::test {

inline void require_root() {
    if (::geteuid() != 0) SKIP("root, to load eBPF programs and make namespaces");
}

// A folder of the bpffs that is removed with all that was pinned in it.
class scratch_pins {
public:
    scratch_pins() {
        require_root();
        if (!std::filesystem::exists("/sys/fs/bpf"))
            SKIP("a bpffs at /sys/fs/bpf: mount -t bpf bpf /sys/fs/bpf");
        path_ = fmt::format("/sys/fs/bpf/pinfold-guards-{}-{}", ::getpid(), made_++);
    }
    scratch_pins(const scratch_pins&) = delete;
    scratch_pins& operator=(const scratch_pins&) = delete;
    ~scratch_pins() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

private:
    static inline int made_ = 0;
    std::filesystem::path path_;
};

// Where cgroup v2 is mounted: not always at /sys/fs/cgroup.
inline std::filesystem::path cgroup_mount() {
    std::ifstream mounts("/proc/self/mountinfo");
    for (std::string line; std::getline(mounts, line);) {
        if (line.find(" - cgroup2 ") == std::string::npos) continue;
        std::size_t at = 0;
        for (int field = 0; field < 4; ++field) at = line.find(' ', at) + 1;
        return line.substr(at, line.find(' ', at) - at);
    }
    SKIP("a mounted cgroup v2 hierarchy");
}

class scratch_cgroup {
public:
    explicit scratch_cgroup(const std::filesystem::path& parent = cgroup_mount())
        : path_(parent / fmt::format("pinfold-guards-{}-{}", ::getpid(), made_++)) {
        check(::mkdir(path_.c_str(), 0755), "make {}", path_.string());
        directory_ = unique_fd(
            check(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open {}", path_.string()));
    }
    scratch_cgroup(const scratch_cgroup&) = delete;
    scratch_cgroup& operator=(const scratch_cgroup&) = delete;
    ~scratch_cgroup() {
        for (int tries = 0; tries < 100 && ::rmdir(path_.c_str()) < 0 && errno == EBUSY; ++tries)
            ::usleep(10'000);
    }
    [[nodiscard]] int fd() const { return directory_.get(); }
    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

private:
    static inline int made_ = 0;
    std::filesystem::path path_;
    unique_fd directory_;
};

// Runs `act` in a thread of its own that is in this network namespace; sockets made there stay there.
template <typename Act>
auto inside(const unique_fd& space, Act act) {
    std::exception_ptr error;
    decltype(act()) result{};
    std::thread([&] {
        try {
            check(::setns(space.get(), CLONE_NEWNET), "enter a namespace");
            result = act();
        } catch (...) {
            error = std::current_exception();
        }
    }).join();
    if (error) std::rethrow_exception(error);
    return result;
}

struct address {
    sockaddr_storage storage = {};
    socklen_t size = 0;

    [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
    [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
    [[nodiscard]] std::string text() const {
        std::array<char, INET6_ADDRSTRLEN> buffer{};
        if (storage.ss_family == AF_INET) {
            const auto& four = reinterpret_cast<const sockaddr_in&>(storage);
            ::inet_ntop(AF_INET, &four.sin_addr, buffer.data(), buffer.size());
            return fmt::format("{}:{}", buffer.data(), ntohs(four.sin_port));
        }
        const auto& six = reinterpret_cast<const sockaddr_in6&>(storage);
        ::inet_ntop(AF_INET6, &six.sin6_addr, buffer.data(), buffer.size());
        return fmt::format("[{}]:{}", buffer.data(), ntohs(six.sin6_port));
    }
};

// A numeric address of either family.
inline address at(const std::string& host, std::uint16_t port) {
    address made;
    auto& four = reinterpret_cast<sockaddr_in&>(made.storage);
    auto& six = reinterpret_cast<sockaddr_in6&>(made.storage);
    if (::inet_pton(AF_INET, host.c_str(), &four.sin_addr) == 1) {
        four.sin_family = AF_INET;
        four.sin_port = htons(port);
        made.size = sizeof four;
    } else if (::inet_pton(AF_INET6, host.c_str(), &six.sin6_addr) == 1) {
        six.sin6_family = AF_INET6;
        six.sin6_port = htons(port);
        made.size = sizeof six;
    } else {
        fail("{} is no address", host);
    }
    return made;
}

inline unique_fd socket_of(int family, int type, int protocol = 0) {
    return unique_fd(check(::socket(family, type | SOCK_CLOEXEC, protocol), "make a socket"));
}

} // namespace pinfold::test
