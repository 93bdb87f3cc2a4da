#include "whole/whole_machine.hpp"

#include "base/file.hpp"
#include "cage/cgroup.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>

namespace pinfold::test {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

constexpr const char* search_path = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";

std::string text_of(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

void give_to_owner(const fs::path& path, mode_t mode) {
    fs::create_directories(path);
    check(::chmod(path.c_str(), mode), "set the mode of {}", path.native());
    check(::chown(path.c_str(), owner_id, owner_id), "give away {}", path.native());
}

void remove_folder(const fs::path& folder) {
    const unique_fd above(::open(folder.parent_path().c_str(), O_DIRECTORY | O_CLOEXEC));
    if (remove_tree_at(above.get(), folder.filename().c_str()) != 0)
        std::fprintf(stderr, "%s could not be removed\n", folder.c_str());
}

std::string next_name() {
    static int made = 0;
    return fmt::format("pinfold-whole-{}-{}", ::getpid(), made++);
}

void reap_strangers() {
    for (siginfo_t found{}; ::waitid(P_ALL, 0, &found, WEXITED | WNOHANG | WNOWAIT) == 0 && found.si_pid != 0;
         found = {}) {
        ::waitpid(found.si_pid, nullptr, 0);
    }
}

} // namespace

std::size_t count_lines(const std::string& text) {
    return static_cast<std::size_t>(std::ranges::count(text, '\n'));
}

std::string trying_script() {
    return fmt::format(R"(
import socket, sys, time
first = True
while True:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        s = socket.socket(socket.AF_INET, kind)
        s.settimeout(2)
        try:
            s.connect(("{0}", {1}))
            s.send(b"x" * 16)
            print("reached", flush=True)
        except OSError:
            pass
        s.close()
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            s.sendto(b"x" * 16, ("{0}", {1}))
            print("reached", flush=True)
        except OSError:
            pass
        s.close()
    if first:
        print("ready", flush=True)
        first = False
    time.sleep(0.002)
)",
                       forbidden, forbidden_port);
}

// ---- a CLI beside the test ----

started_cli::started_cli(const cli& from, const words& arguments) {
    const auto open = [&](const char* name) {
        unique_fd file(
            check(::open((place_.path() / name).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600),
                  "open {}", name));
        if (from.user) check(::fchown(file.get(), *from.user, *from.user), "give {} away", name);
        return file;
    };
    std::array<int, 2> ends{};
    check(::pipe2(ends.data(), O_CLOEXEC), "make a pipe for the standard input of pinfold");
    const unique_fd theirs(ends[0]);
    input_ = unique_fd(ends[1]);
    const unique_fd out = open("out"), err = open("err");
    pid_ = from.start(arguments, theirs.get(), out.get(), err.get());
}

started_cli::~started_cli() {
    if (ended_) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
}

std::string started_cli::read(const char* name) const {
    return text_of(place_.path() / name);
}

bool started_cli::running() const {
    siginfo_t state{};
    return !ended_ && ::waitid(P_PID, static_cast<id_t>(pid_), &state, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           state.si_pid == 0;
}

int started_cli::wait(std::chrono::seconds limit) {
    if (!ended_) ended_ = cli::wait(pid_, limit);
    return *ended_;
}

// ---- what all machines stand on ----

common_ground& common_ground::here() {
    static common_ground ground;
    return ground;
}

// What the tests plant is seen by what they start and by nobody else, and what is left behind can be reaped here.
common_ground::common_ground()
    : folder_(fs::temp_directory_path() / fmt::format("pinfold-whole-{}", ::getpid())) {
    check(::unshare(CLONE_NEWNS), "make a mount namespace for the tests");
    check(::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr), "keep the tests' mounts to them");
    check(::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "take over what agents leave");
    world_.enter("machine");
    for (const fs::path& each : {folder_, folder_ / "images"}) {
        check(::mkdir(each.c_str(), 0755), "make {}", each.native());
        check(::chmod(each.c_str(), 0755), "open the way to {}", each.native());
    }
    plant(text_of("/etc/passwd") +
              fmt::format("{0}:x:{1}:{1}::{2}:/bin/sh\n", owner_name, owner_id, home().native()),
          "/etc/passwd");
    plant(text_of("/etc/group") + fmt::format("{}:x:{}:\n", owner_name, owner_id), "/etc/group");
    plant(text_of(world_.directory() / "resolv.conf"), "/etc/resolv.conf");
}

common_ground::~common_ground() {
    for (const char* each : {"/etc/resolv.conf", "/etc/group", "/etc/passwd"}) ::umount2(each, MNT_DETACH);
    remove_folder(folder_);
}

void common_ground::plant(const std::string& text, const char* over) const {
    const fs::path file = folder_ / fs::path(over).filename();
    std::ofstream(file) << text;
    check(::chmod(file.c_str(), 0644), "open {} to everybody", file.native());
    check(::mount(file.c_str(), over, nullptr, MS_BIND, nullptr), "plant {}", over);
}

// ---- the machine ----

whole_machine::whole_machine(settings how)
    : how_(std::move(how)),
      name_(next_name()),
      folder_(ground_.folder() / name_),
      pins_(fs::path("/sys/fs/bpf") / name_),
      cgroup_mount_(find_cgroup2(read_file("/proc/self/mountinfo")).value()),
      home_(ground_.home()),
      pinfold_(home_ / "run/pinfold/api.sock") {
    make_places();
    write_config();
    pinfold_.user = owner_id;
    pinfold_.directory = project();
    pinfold_.environment = {"PATH=/usr/bin:/bin", "HOME=" + home_.native(), "TERM=xterm", "LANG=C.UTF-8",
                            "PINFOLD_KEEPER=" + (run_dir() / "keeper.sock").native()};
    start_keeper();
}

void whole_machine::make_places() {
    check(::mkdir(folder_.c_str(), 0755), "make {}", folder_.native());
    check(::chmod(folder_.c_str(), 0755), "open the way to the keeper");
    for (const fs::path& each : {home_, home_ / "run", project()}) give_to_owner(each, 0700);
    for (const auto& [place, size] : {std::pair{run_dir(), how_.run_size}, {state_dir(), how_.state_size}}) {
        fs::create_directory(place);
        if (size.empty()) continue;
        check(::mount("tmpfs", place.c_str(), "tmpfs", 0, ("mode=755,size=" + size).c_str()),
              "mount a tmpfs at {}", place.native());
    }
    if (how_.state_size.empty())
        fs::create_directory_symlink(ground_.folder() / "images", state_dir() / "images");
}

void whole_machine::write_config() {
    std::ofstream(folder_ / "keeper.conf")
        << fmt::format("cgroup = {}\nbpf-dir = {}\nlibexec = {}\naccept-unlimited = memory,cpu,pids\n{}\n",
                       name_, pins_.native(), PINFOLD_LIBEXEC_DIR, how_.config);
}

whole_machine::~whole_machine() {
    try {
        kill_agent(SIGTERM);
        kill_keeper(SIGTERM);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
    }
    end_cages();
    std::error_code ignored;
    fs::remove_all(pins_, ignored);
    ::rmdir((cgroup_folder() / "anchor").c_str());
    ::rmdir(cgroup_folder().c_str());
    for (const fs::path& each : {run_dir(), state_dir()}) ::umount2(each.c_str(), MNT_DETACH);
    remove_folder(folder_);
    remove_folder(home_);
    reap_strangers();
}

// What a dead keeper left, where a test ends early.
void whole_machine::end_cages() const {
    std::error_code ignored;
    for (const auto& each : fs::directory_iterator(cgroup_folder(), ignored)) {
        if (!each.is_directory() || each.path().filename() == "anchor") continue;
        std::ofstream(each.path() / "cgroup.kill") << "1";
        eventually([&] { return ::rmdir(each.path().c_str()) == 0; }, 5s);
    }
}

// ---- the keeper ----

void whole_machine::start_keeper() {
    const std::string log = folder_ / "keeper.log";
    std::vector<std::string> arguments{PINFOLD_BIN_DIR "/pinfold-keeper",
                                       "--run-dir",
                                       run_dir(),
                                       "--state-dir",
                                       state_dir(),
                                       "--config",
                                       folder_ / "keeper.conf"};
    std::vector<char*> argv;
    for (std::string& each : arguments) argv.push_back(each.data());
    argv.push_back(nullptr);
    const std::array<const char*, 2> environment{search_path, nullptr};
    const std::size_t before = text_of(log).size(); // what an earlier keeper said is not this one's word
    const pid_t pid = check(::fork(), "fork a keeper");
    if (pid == 0) {
        const int to = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
        ::dup2(::open("/dev/null", O_RDONLY), 0);
        ::dup2(to, 1);
        ::dup2(to, 2);
        ::syscall(SYS_close_range, 3U, ~0U, 0U);
        ::execve(argv[0], argv.data(), const_cast<char* const*>(environment.data()));
        ::_exit(121);
    }
    keeper_ = process(pid, open_pidfd(pid));
    const bool serves = eventually(
        [&] {
            if (keeper_.reap_within(0ms)) fail("the keeper ended: {}", keeper_log());
            return text_of(log).find(" serves at ", before) != std::string::npos;
        },
        20s);
    if (!serves) fail("the keeper does not serve: {}", keeper_log());
}

void whole_machine::kill_keeper(int number) {
    if (!keeper_) return;
    keeper_.signal(number);
    if (!keeper_.reap_within(20s)) fail("the keeper does not end: {}", keeper_log());
    keeper_ = process();
}

std::string whole_machine::keeper_log() const {
    return text_of(folder_ / "keeper.log");
}

// ---- the owner ----

cli_result whole_machine::run(words arguments, const std::string& input) {
    arguments.insert(arguments.begin(), "-q");
    return pinfold_.run(arguments, input);
}

nlohmann::json whole_machine::ask(words arguments, int status) {
    arguments.insert(arguments.begin(), "--json");
    const cli_result result = pinfold_.run(arguments);
    INFO(arguments.at(1) << ": " << result.out << result.err);
    CHECK(result.status == status);
    return nlohmann::json::parse(result.out, nullptr, false);
}

words whole_machine::in_cage(const std::string& name, const std::string& script, const char* mode) const {
    return {"-q", "run", mode, "--name", name, "--", "/usr/bin/python3", "-c", script};
}

pid_t whole_machine::agent() {
    const auto version = nlohmann::json::parse(pinfold_.run({"version", "--json"}).out, nullptr, false);
    if (!version.is_object() || !version.at("agent").is_object()) return 0;
    return version.at("agent").at("pid").get<pid_t>();
}

void whole_machine::kill_agent(int number) {
    const pid_t pid = agent();
    if (pid == 0) return;
    ::kill(pid, number);
    // Ours to reap since the CLI that started it has ended.
    eventually([&] { return ::waitpid(pid, nullptr, WNOHANG) == pid || ::kill(pid, 0) != 0; }, 20s);
}

std::string whole_machine::agent_log() const {
    return text_of(home_ / ".local/state/pinfold/agent.log");
}

} // namespace pinfold::test
