// A world without an uplink for the relay's tests: a machine, the far side of its only link, and cages of the product.
#pragma once

#include "agent/relay/relay.hpp"
#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "cage/network.hpp"

#include <cstdint>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <sched.h>
#include <string>
#include <thread>
#include <vector>

namespace pinfold::test {

// Runs `act` in a thread that is in this network namespace; sockets and programs made there stay there.
template <typename Act>
auto inside(const unique_fd& space, Act act) {
    using result_type = decltype(act());
    std::exception_ptr error;
    std::conditional_t<std::is_void_v<result_type>, int, result_type> result{};
    std::thread([&] {
        try {
            check(::setns(space.get(), CLONE_NEWNET), "enter a network namespace of the test");
            if constexpr (std::is_void_v<result_type>)
                act();
            else
                result = act();
        } catch (...) {
            error = std::current_exception();
        }
    }).join();
    if (error) std::rethrow_exception(error);
    if constexpr (!std::is_void_v<result_type>) return result;
}

// What `far` has, and the machine beside it. All of it is reached by the machine's default route, but what is named
// local: `lan` is on the link, `mesh` has a route of its own.
namespace place {
inline constexpr const char* web4 = "93.184.216.34";
inline constexpr const char* web6 = "2606:2800:220:1::34";
inline constexpr const char* lan4 = "10.77.0.2";
inline constexpr const char* lan6 = "fd77::2";
inline constexpr const char* mesh4 = "198.51.100.7";
inline constexpr const char* machine4 = "10.77.0.1";          // the machine's end of the link
inline constexpr const char* machine_public4 = "203.0.113.5"; // and a public-looking address of its own
inline constexpr const char* black_hole = "192.0.2.66";       // swallows
inline constexpr const char* unreachable = "192.0.2.99";      // far answers "host unreachable"
inline constexpr const char* no_net = "192.0.2.98";           // the machine itself has no way there
} // namespace place

// One way out of a namespace, the way the machine's `near` has it.
class relay_world {
public:
    relay_world();
    relay_world(const relay_world&) = delete;
    relay_world& operator=(const relay_world&) = delete;
    ~relay_world();

    [[nodiscard]] const unique_fd& near() const { return near_; } // the machine's namespace
    [[nodiscard]] const unique_fd& far() const { return far_; }
    [[nodiscard]] cage_network make_cage(std::uint64_t id);

private:
    std::filesystem::path pins_;
    unique_fd near_;
    unique_fd far_;
    std::unique_ptr<steering> steering_;
    std::vector<std::uint64_t> cages_;
};

struct served {
    std::uint64_t id = 1;
    cage_mode mode{};
    std::vector<std::string> resolvers;
};

// The relay in a process of its own: nobody's uid, no capability, in `near`. Port 8080 of the gateway answers "agent\n".
class relay_process {
public:
    relay_process(relay_world& world, std::vector<served> cages,
                  const destination_check& check = machine_destinations(), relay_limits limits = {},
                  std::size_t most_fds = 0);
    relay_process(const relay_process&) = delete;
    relay_process& operator=(const relay_process&) = delete;
    ~relay_process();

    [[nodiscard]] const unique_fd& cage(std::uint64_t id = 1) const { return spaces_.at(id); }
    [[nodiscard]] relay_figures figures(std::uint64_t id = 1) const { return ask('f', id); }
    void remove(std::uint64_t id) const { (void)ask('r', id); }
    void pause(bool on) const; // SIGSTOP, SIGCONT
    void kill();               // SIGKILL, and waits
    [[nodiscard]] int stop();  // in order; its exit status: 0 = every operation and fd had ended
    [[nodiscard]] std::size_t proportional_bytes() const; // PSS
    [[nodiscard]] std::size_t open_fds() const;
    [[nodiscard]] double cpu_milliseconds() const; // user and system time so far
    [[nodiscard]] std::size_t times_woken() const; // and gone to sleep again: its voluntary context switches

private:
    [[nodiscard]] relay_figures ask(char what, std::uint64_t id) const;

    std::map<std::uint64_t, unique_fd> spaces_;
    unique_fd control_;
    pid_t pid_ = -1;
};

} // namespace pinfold::test
