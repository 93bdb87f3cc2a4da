#include "ctl/agent_start.hpp"

#include "base/default_paths.hpp"

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <grp.h>
#include <linux/close_range.h>
#include <optional>
#include <pwd.h>
#include <string_view>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <tuple>

namespace pinfold::ctl {

namespace {

using clock = std::chrono::steady_clock;

constexpr std::chrono::seconds start_time{10}, race_time{1};
constexpr std::chrono::milliseconds look_again{5};
constexpr std::uintmax_t largest_log = 4U << 20;

// Nothing where nobody listens.
std::optional<unique_fd> try_connect(const std::filesystem::path& path, const owner& whose) {
    sockaddr_un address{.sun_family = AF_UNIX};
    if (path.native().size() >= sizeof address.sun_path)
        fail("the socket path {} is longer than {} bytes", path.native(), sizeof address.sun_path - 1);
    std::memcpy(address.sun_path, path.c_str(), path.native().size());
    unique_fd connection(check(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), "make a socket"));
    if (::connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        if (errno == ENOENT || errno == ECONNREFUSED) return std::nullopt;
        fail_errno(errno, "connect to the agent at {}", path.native());
    }
    // In /tmp somebody else may have listened first: commands and environment are for the owner's agent only.
    ucred peer{};
    socklen_t size = sizeof peer;
    check(::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size), "ask who listens");
    if (peer.uid != whose.uid)
        fail("the agent at {} runs as user {}, not as {}: choose another socket with --api", path.native(),
             peer.uid, whose.name);
    // A killed agent's socket takes connections until the kernel has taken its io_uring apart, and answers none.
    if (peer.pid > 0 && ::kill(peer.pid, 0) != 0 && errno == ESRCH) return std::nullopt;
    return connection;
}

std::filesystem::path find_agent() {
    std::error_code ignored;
    const std::filesystem::path beside =
        std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
    std::vector<std::filesystem::path> places{beside / "pinfold-agent",
                                              beside / "../libexec/pinfold/pinfold-agent",
                                              beside / "../lib/pinfold/pinfold-agent",
                                              "/usr/libexec/pinfold/pinfold-agent",
                                              "/usr/bin/pinfold-agent",
                                              "/usr/local/bin/pinfold-agent"};
    for (const auto& place : places) {
        if (::access(place.c_str(), X_OK) == 0) return place.lexically_normal();
    }
    fail("pinfold-agent is not beside pinfold nor in /usr/libexec/pinfold: install it, or start it yourself");
}

struct launch {
    std::string program, log, state;
    std::vector<std::string> arguments, environment;
};

launch make_launch(const common_options& options, const owner& whose) {
    launch made{.program = find_agent().native(), .state = default_state_directory(whose.uid).native()};
    made.log = made.state + "/agent.log";
    made.arguments = {"pinfold-agent", "--api", api_socket_of(options, whose).native(), "--state",
                      made.state};
    std::filesystem::path keeper = options.keeper;
    if (const char* named = std::getenv("PINFOLD_KEEPER"); keeper.empty() && named != nullptr) keeper = named;
    if (!keeper.empty()) made.arguments.insert(made.arguments.end(), {"--keeper", keeper.native()});
    // Nothing of this terminal's environment lives on in a process that outlives it.
    made.environment = {"PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
                        "HOME=" + whose.home, "USER=" + whose.name, "LOGNAME=" + whose.name};
    for (const char* name : {"XDG_RUNTIME_DIR", "XDG_STATE_HOME"}) {
        const std::filesystem::path value = own_directory(name, whose.uid);
        if (!value.empty()) made.environment.push_back(std::string(name) + "=" + value.native());
    }
    return made;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> list;
    list.reserve(texts.size() + 1);
    for (std::string& text : texts) list.push_back(text.data());
    list.push_back(nullptr);
    return list;
}

// In the child: the owner, a session of its own, the log, and nothing else of where it came from.
[[noreturn]] void become_agent(launch what, const owner& whose, int report) {
    try {
        ::setsid();
        if (whose.other) {
            check(::initgroups(whose.name.c_str(), whose.gid), "take the groups of {}", whose.name);
            check(::setgid(whose.gid), "become the group of {}", whose.name);
            check(::setuid(whose.uid), "become {}", whose.name);
        }
        ::umask(077);
        std::filesystem::create_directories(what.state);
        std::error_code ignored;
        const bool too_long = std::filesystem::file_size(what.log, ignored) > largest_log && !ignored;
        const int log = check(
            ::open(what.log.c_str(),
                   O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | (too_long ? O_TRUNC : 0), 0600),
            "open the log {}", what.log);
        const int nothing = check(::open("/dev/null", O_RDWR | O_CLOEXEC), "open /dev/null");
        ::dup2(nothing, 0);
        ::dup2(log, 1);
        ::dup2(log, 2);
        ::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC); // not closed yet: `report` is one of them
        check(::chdir("/"), "change to /");
        ::execve(what.program.c_str(), pointers(what.arguments).data(), pointers(what.environment).data());
        fail_errno(errno, "execute {}", what.program);
    } catch (const std::exception& error) {
        const std::string text = error.what();
        std::ignore = ::write(report, text.data(), text.size());
    }
    ::_exit(125);
}

// What the child said before it was the agent, or the last line of the agent's log.
std::string last_words(const unique_fd& report, const std::string& file) {
    std::array<char, 1024> text{};
    const ssize_t got = ::read(report.get(), text.data(), text.size());
    if (got > 0) return {text.data(), static_cast<std::size_t>(got)};
    std::ifstream from(file);
    std::string last;
    for (std::string line; std::getline(from, line);) {
        if (!line.empty()) last = line;
    }
    constexpr std::string_view itself = "pinfold-agent: ";
    if (last.starts_with(itself)) last.erase(0, itself.size());
    if (!last.empty()) return last;
    struct statvfs room{};
    const std::string folder = std::filesystem::path(file).parent_path();
    if (::statvfs(folder.c_str(), &room) == 0 && room.f_bavail == 0)
        return fmt::format("No space left on device for its state in {}", folder);
    return "it said nothing";
}

} // namespace

owner find_owner(const common_options& options) {
    if (options.owner.empty()) {
        const passwd* self = ::getpwuid(::geteuid());
        return {.uid = ::geteuid(),
                .gid = ::getegid(),
                .name = self != nullptr ? self->pw_name : std::to_string(::geteuid()),
                .home = self != nullptr ? self->pw_dir : "/"};
    }
    if (::geteuid() != 0) throw usage_error("--owner is for root only");
    const passwd* named = ::getpwnam(options.owner.c_str());
    if (named == nullptr) throw usage_error(fmt::format("--owner: there is no user '{}'", options.owner));
    return {.uid = named->pw_uid,
            .gid = named->pw_gid,
            .name = named->pw_name,
            .home = named->pw_dir,
            .other = named->pw_uid != ::geteuid()};
}

std::filesystem::path api_socket_of(const common_options& options, const owner& whose) {
    if (!options.api.empty()) return std::filesystem::absolute(options.api);
    const char* named = std::getenv("PINFOLD_API");
    if (named != nullptr && *named != '\0') return std::filesystem::absolute(named);
    return default_api_socket(whose.uid);
}

unique_fd connect_to_agent(const common_options& options, const owner& whose, bool start) {
    const std::filesystem::path socket = api_socket_of(options, whose);
    if (auto running = try_connect(socket, whose)) return std::move(*running);
    if (!start) fail("no agent runs at {}", socket.native());
    const launch what = make_launch(options, whose);
    std::array<int, 2> ends{};
    check(::pipe2(ends.data(), O_CLOEXEC), "make a pipe for the agent");
    const unique_fd report(ends[0]);
    unique_fd theirs(ends[1]);
    const pid_t child = check(::fork(), "start the agent");
    if (child == 0) become_agent(what, whose, theirs.get());
    theirs.reset();
    for (const auto limit = clock::now() + start_time; clock::now() < limit;
         std::this_thread::sleep_for(look_again)) {
        if (auto running = try_connect(socket, whose)) return std::move(*running);
        int status = 0;
        if (::waitpid(child, &status, WNOHANG) != child) continue;
        // It may have lost a race with another agent that was started at the same time, and listens a moment later.
        for (const auto end = clock::now() + race_time; clock::now() < end;
             std::this_thread::sleep_for(look_again))
            if (auto running = try_connect(socket, whose)) return std::move(*running);
        fail("the agent could not be started: {} (log: {})", last_words(report, what.log), what.log);
    }
    fail("the agent was started but does not listen at {} after {} s; see {}", socket.native(),
         start_time.count(), what.log);
}

} // namespace pinfold::ctl
