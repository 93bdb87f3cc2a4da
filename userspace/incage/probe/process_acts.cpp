// Processes, memory and processor time: what limits are for.
#include "incage/probe/act.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <ctime>
#include <dirent.h>
#include <fstream>
#include <memory>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace pinfold::probe {
namespace {

using namespace std::chrono_literals;

// Children that only wait; all are gone when this returns.
outcome fork_bomb(arguments given) {
    const std::uint64_t wanted = number(given[0]);
    std::vector<pid_t> children;
    int error = 0;
    while (children.size() < wanted && error == 0) {
        const pid_t child = ::fork();
        if (child == 0) {
            ::pause();
            ::_exit(0);
        }
        if (child < 0)
            error = errno;
        else
            children.push_back(child);
    }
    for (const pid_t child : children) ::kill(child, SIGKILL);
    for (const pid_t child : children) ::waitpid(child, nullptr, 0);
    return {error, joined("forked=", children.size())};
}

// Written to, page by page: the kernel gives memory no earlier.
outcome eat_memory(arguments given) {
    constexpr std::size_t mebibyte = std::size_t{1} << 20;
    constexpr std::size_t page = 4096;
    const std::size_t size = number(given[0]) * mebibyte;
    void* const place = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) return failed("mmap");
    for (std::size_t at = 0; at < size; at += page) static_cast<volatile char*>(place)[at] = 1;
    ::munmap(place, size);
    return done();
}

std::size_t count_zombies() {
    std::size_t zombies = 0;
    const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), &::closedir);
    while (const dirent* entry = proc ? ::readdir(proc.get()) : nullptr) {
        std::ifstream status(std::string("/proc/") + entry->d_name + "/stat");
        std::string line;
        std::getline(status, line);
        const std::size_t name_end = line.rfind(") ");
        if (name_end != std::string::npos && line[name_end + 2] == 'Z') ++zombies;
    }
    return zombies;
}

// Each is left by a child that ends at once, and so becomes init's; then what is still there after a second.
outcome orphans(arguments given) {
    for (std::uint64_t left = number(given[0]); left > 0; --left) {
        const pid_t child = ::fork();
        if (child < 0) return failed(joined("fork left=", left));
        if (child == 0) {
            if (left % 2 == 0) ::setsid();
            if (::fork() == 0) std::this_thread::sleep_for(10ms);
            ::_exit(0);
        }
        ::waitpid(child, nullptr, 0);
    }
    std::this_thread::sleep_for(1s);
    const std::size_t zombies = count_zombies();
    const pid_t one_more = ::fork();
    if (one_more == 0) ::_exit(0);
    if (one_more < 0) return failed(joined("fork zombies=", zombies));
    ::waitpid(one_more, nullptr, 0);
    return done(joined("zombies=", zombies));
}

// Spins for so long by the wall clock, in so many threads; the processor time that it was given.
outcome hog_cpu(arguments given) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(number(given[0]));
    const std::uint64_t count = given.size() > 1 ? number(given[1]) : 1;
    std::vector<std::thread> threads;
    threads.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i)
        threads.emplace_back([until] {
            while (std::chrono::steady_clock::now() < until) {
            }
        });
    for (std::thread& each : threads) each.join();
    timespec used{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return done(joined("cpu_ms=", used.tv_sec * 1000 + used.tv_nsec / 1'000'000));
}

outcome wait_so_long(arguments given) {
    std::this_thread::sleep_for(std::chrono::milliseconds(number(given[0])));
    return done();
}

// As root inside, what belongs to another id there.
outcome become(arguments given) {
    const auto id = static_cast<uid_t>(number(given[0]));
    if (::setresgid(id, id, id) != 0) return failed("setresgid");
    return ::setresuid(id, id, id) == 0 ? done() : failed("setresuid");
}

constexpr act table[] = {
    {"forkbomb", "N: fork that often, then end all", 1, 1, fork_bomb},
    {"eat-memory", "MIB: write to so much", 1, 1, eat_memory},
    {"orphans", "N: leave so many to init, count the zombies", 1, 1, orphans},
    {"hog-cpu", "MS [THREADS]: spin; prints the time it got", 1, 2, hog_cpu},
    {"sleep", "MS", 1, 1, wait_so_long},
    {"setuid", "ID", 1, 1, become},
};

} // namespace

std::span<const act> process_acts() {
    return table;
}

} // namespace pinfold::probe
