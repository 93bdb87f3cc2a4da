// Cold start, from the request to the program's first instruction: pinfold through the keeper's socket, pinfold through
// the CLI, and bwrap --unshare-all with comparable binds, taken in turns in one run.
#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "bench/figures.hpp"
#include "wire/channel.hpp"

#include <array>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <poll.h>
#include <spawn.h>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace {

using namespace pinfold;
using bench::now_ns;

struct arguments {
    std::string keeper;  // socket
    std::string api;     // socket
    std::string cli;     // program
    std::string project; // directory that holds `mark`
    int runs = 100;
};

// The 8 bytes that `mark` writes; what comes before them on the pipe is nothing.
std::int64_t read_mark(int fd) {
    std::int64_t mark = 0;
    auto* into = reinterpret_cast<char*>(&mark);
    for (std::size_t got = 0; got < sizeof mark;) {
        const ssize_t size = ::read(fd, into + got, sizeof mark - got);
        if (size <= 0) fail("the measured program wrote no time: it did not start");
        got += static_cast<std::size_t>(size);
    }
    return mark;
}

double milliseconds(std::int64_t from, std::int64_t until) {
    return static_cast<double>(until - from) / 1e6;
}

// One program as a command, from before it is spawned until `mark` runs.
double spawn_and_wait(const std::vector<std::string>& command) {
    std::array<int, 2> ends{};
    check(::pipe2(ends.data(), O_CLOEXEC), "make a pipe");
    const unique_fd reader(ends[0]);
    unique_fd writer(ends[1]);
    std::vector<char*> argv;
    argv.reserve(command.size() + 1);
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, writer.get(), STDOUT_FILENO);
    pid_t pid = 0;
    const std::int64_t begin = now_ns();
    const int error = ::posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0) fail_errno(error, "start {}", command.front());
    writer.reset();
    const std::int64_t mark = read_mark(reader.get());
    int status = 0;
    check(::waitpid(pid, &status, 0), "wait for {}", command.front());
    return milliseconds(begin, mark);
}

// The keeper asked as the agent asks it: make, start, and then its end.
class keeper_client {
public:
    explicit keeper_client(const std::string& socket) : channel_(wire::channel::connect(socket)) {
        ask(wire::hello{.version = wire::version});
    }

    double start(const std::string& project, int run) {
        cage_spec spec{.name = fmt::format("bench-{}", run), .project = project};
        spec.command.argv = {project + "/mark"};
        spec.command.environment = {"PATH=/usr/bin:/bin"};
        spec.command.directory = project;
        const std::int64_t begin = now_ns();
        const wire::message made = ask(wire::make{.spec = std::move(spec)});
        const std::uint64_t cage = std::get<wire::made>(made.body).cage;
        ask(wire::start{.cage = cage});
        const std::int64_t mark = read_mark(made.fds.at(3).get()); // tun, listener, stdin, stdout, stderr
        wait_for_end(cage);
        return milliseconds(begin, mark);
    }

private:
    wire::message ask(wire::body body) {
        channel_.send(wire::message{.number = ++number_, .body = std::move(body)});
        for (;;) {
            wire::message answer = take();
            if (answer.number == 0) {
                unasked_.push_back(std::move(answer)); // its end may come before the reply to start
                continue;
            }
            if (const auto* failed = std::get_if<wire::failed>(&answer.body)) fail("{}", failed->text);
            return answer;
        }
    }
    void wait_for_end(std::uint64_t cage) {
        const auto is_its_end = [cage](const wire::message& told) {
            const auto* ended = std::get_if<wire::ended>(&told.body);
            return ended != nullptr && ended->cage == cage && ended->process == 0;
        };
        while (std::ranges::none_of(unasked_, is_its_end)) unasked_.push_back(take());
        unasked_.clear();
    }
    wire::message take() {
        auto received = channel_.receive(true);
        if (!received) fail("the keeper's answer: {}", received.error().text());
        auto* message = std::get_if<wire::message>(&*received);
        if (message == nullptr) fail("the keeper closed the connection");
        return std::move(*message);
    }

    wire::channel channel_;
    std::uint32_t number_ = 0;
    std::vector<wire::message> unasked_;
};

std::vector<std::string> bwrap(const std::string& project) {
    return {"bwrap",          "--unshare-all", "--die-with-parent",
            "--ro-bind",      "/usr",          "/usr",
            "--ro-bind",      "/etc",          "/etc",
            "--symlink",      "usr/bin",       "/bin",
            "--symlink",      "usr/lib",       "/lib",
            "--symlink",      "usr/lib64",     "/lib64",
            "--symlink",      "usr/sbin",      "/sbin",
            "--proc",         "/proc",         "--dev",
            "/dev",           "--tmpfs",       "/tmp",
            "--tmpfs",        "/run",          "--tmpfs",
            "/var",           "--bind",        project,
            project,          "--chdir",       project,
            project + "/mark"};
}

bench::figures measure(const arguments& given) {
    keeper_client keeper(given.keeper);
    const std::string mark = given.project + "/mark";
    std::vector<double> native, wire_cold, cli_cold, peer;
    int number = 0;
    for (int run = -2; run < given.runs; ++run) { // two rounds to warm the caches
        const double none = spawn_and_wait({mark});
        const double by_wire = keeper.start(given.project, ++number);
        const double by_bwrap = spawn_and_wait(bwrap(given.project));
        const double by_cli = given.api.empty()
                                  ? 0
                                  : spawn_and_wait({given.cli, "--api", given.api, "run", "--sealed", "--dir",
                                                    given.project, "--name",
                                                    fmt::format("bench-cli-{}", ++number), "--", mark});
        if (run < 0) continue;
        native.push_back(none);
        wire_cold.push_back(by_wire);
        peer.push_back(by_bwrap);
        cli_cold.push_back(by_cli);
    }
    bench::figures figures;
    figures.add_ms("pinfold_cold", wire_cold);
    figures.add_ms("bwrap", peer);
    figures.add_ms("pinfold_cli", cli_cold);
    figures.add_ms("native", native);
    figures.add("pinfold_cold_to_bwrap_ratio",
                bench::percentile(wire_cold, 0.5) / bench::percentile(peer, 0.5));
    figures.add("runs", given.runs);
    return figures;
}

arguments read_arguments(int argc, char* argv[]) {
    arguments given;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string_view name = argv[i];
        if (name == "--keeper")
            given.keeper = argv[i + 1];
        else if (name == "--api")
            given.api = argv[i + 1];
        else if (name == "--cli")
            given.cli = argv[i + 1];
        else if (name == "--project")
            given.project = argv[i + 1];
        else if (name == "--runs")
            given.runs = std::atoi(argv[i + 1]);
        else
            fail("unknown argument '{}'", name);
    }
    return given;
}

} // namespace

int main(int argc, char* argv[]) {
    try {
        measure(read_arguments(argc, argv)).print();
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench_start: %s\n", error.what());
        return 1;
    }
}
