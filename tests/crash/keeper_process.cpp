#include "crash/keeper_process.hpp"

#include "base/error.hpp"
#include "base/file.hpp"
#include "support/catch.hpp"
#include "support/time_scale.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <sched.h>
#include <thread>

namespace pinfold::test {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

keeper_link::keeper_link(const fs::path& socket) : channel_(wire::channel::connect(socket)) {
    const wire::message greeted = ask(wire::hello{.version = wire::version, .denials = true});
    if (const auto* refused = std::get_if<wire::failed>(&greeted.body)) fail("{}", refused->text);
}

void keeper_link::send(wire::body body) {
    channel_.send({.number = ++number_, .body = std::move(body)});
}

wire::message keeper_link::take() {
    auto received = channel_.receive(true);
    if (!received) fail("the keeper's message: {}", received.error().text());
    if (auto* message = std::get_if<wire::message>(&*received)) return std::move(*message);
    fail("the keeper hung up");
}

wire::message keeper_link::answer() {
    for (;;) {
        wire::message message = take();
        if (message.number == number_) return message;
        unasked_.push_back(std::move(message));
    }
}

bool keeper_link::readable() const {
    pollfd waiting{.fd = channel_.fd(), .events = POLLIN};
    return ::poll(&waiting, 1, 0) == 1;
}

wire::ended keeper_link::end_of(std::uint64_t cage, std::uint32_t process) {
    const auto is_end = [cage, process](const wire::message& message) {
        const auto* ended = std::get_if<wire::ended>(&message.body);
        return ended != nullptr && ended->cage == cage && ended->process == process;
    };
    while (std::ranges::none_of(unasked_, is_end)) unasked_.push_back(take());
    const auto found = std::ranges::find_if(unasked_, is_end);
    const wire::ended ended = std::get<wire::ended>(found->body);
    unasked_.erase(found);
    return ended;
}

keeper_home::keeper_home() {
    static int made = 0;
    if (::geteuid() != 0) SKIP("root, to run a keeper");
    name_ = fmt::format("pinfold-crash-{}-{}", ::getpid(), made++);
    folder_ = fs::temp_directory_path() / name_;
    pins_ = fs::path("/sys/fs/bpf") / name_;
    fs::create_directories(folder_);
    cgroup_mount_ = find_cgroup2(read_file("/proc/self/mountinfo")).value();
    std::ofstream(folder_ / "keeper.conf")
        << fmt::format("cgroup = {}\nbpf-dir = {}\nlibexec = {}\naccept-unlimited = memory,cpu,pids\n", name_,
                       pins_.native(), PINFOLD_LIBEXEC_DIR);
}

keeper_home::~keeper_home() {
    std::error_code ignored;
    fs::remove_all(pins_, ignored);
    for (const auto& each : fs::directory_iterator(cgroup_folder(), ignored)) {
        if (!each.is_directory()) continue;
        std::ofstream(each.path() / "cgroup.kill") << "1";
        std::this_thread::sleep_for(10ms);
        ::rmdir(each.path().c_str());
    }
    ::rmdir(cgroup_folder().c_str());
    const unique_fd above(::open(folder_.parent_path().c_str(), O_DIRECTORY | O_CLOEXEC));
    (void)remove_tree_at(above.get(), folder_.filename().c_str());
}

process keeper_home::start() {
    const std::string log = folder_ / "keeper.log";
    const std::string run = folder_ / "run";
    const std::string state = folder_ / "state";
    const std::string config = folder_ / "keeper.conf";
    const pid_t pid = check(::fork(), "fork a keeper");
    if (pid == 0) {
        // A namespace without a link: nothing can leave, and the routes of the machine are not those of the test.
        if (::unshare(CLONE_NEWNET) != 0) ::_exit(120);
        const int to = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
        ::dup2(to, 1);
        ::dup2(to, 2);
        const std::array<const char*, 8> argv{PINFOLD_BIN_DIR "/pinfold-keeper",
                                              "--run-dir",
                                              run.c_str(),
                                              "--state-dir",
                                              state.c_str(),
                                              "--config",
                                              config.c_str(),
                                              nullptr};
        const std::array<const char*, 2> environment{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", nullptr};
        ::execve(argv[0], const_cast<char* const*>(argv.data()),
                 const_cast<char* const*>(environment.data()));
        ::_exit(121);
    }
    process keeper(pid, open_pidfd(pid));
    for (int tries = 0; tries < 1500 * time_scale(); ++tries) {
        if (keeper.reap_within(0ms)) fail("the keeper ended: {}", this->log());
        try {
            // Asked, not only connected: the last keeper's socket may live on for a moment in a child it was cloning.
            (void)keeper_link(socket());
            return keeper;
        } catch (const std::exception&) {
            std::this_thread::sleep_for(10ms);
        }
    }
    fail("the keeper does not serve: {}", this->log());
}

std::string keeper_home::log() const {
    return read_file(folder_ / "keeper.log");
}

std::vector<std::string> keeper_home::traces() const {
    std::vector<std::string> found;
    std::error_code ignored;
    const auto add = [&](const char* kind, const fs::path& folder, const char* except = "") {
        for (const auto& each : fs::directory_iterator(folder, ignored)) {
            const std::string name = each.path().filename();
            if (name != except && (each.is_directory() || std::string(kind) == "record"))
                found.push_back(fmt::format("{} {}", kind, name));
        }
    };
    add("cgroup", cgroup_folder(), "anchor");
    add("pins", pins_ / "cages");
    add("record", folder_ / "run/cages");
    for (const auto& owner : fs::directory_iterator(folder_ / "state/cages", ignored))
        add("kept", owner.path());
    std::ranges::sort(found);
    return found;
}

cage_spec sleeping_spec(const std::string& name) {
    cage_spec spec{.name = name, .mode = cage_mode::sealed};
    spec.command = {.argv = {"sleep", "600"}, .environment = {"PATH=/usr/bin:/bin"}, .directory = "/"};
    return spec;
}

} // namespace pinfold::test
