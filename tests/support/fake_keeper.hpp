// A keeper without cages: it speaks the real wire, and its "cages" are plain children. For tests of the agent alone.
#pragma once

#include "wire/channel.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <mutex>
#include <netinet/in.h>
#include <optional>
#include <poll.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <tuple>

namespace pinfold::test {

class fake_keeper {
public:
    // `allows`: an act that this machine's scratch cages allow; `more`: one more fact of it.
    explicit fake_keeper(const std::filesystem::path& socket, std::string allows = "",
                         std::optional<wire::fact> more = std::nullopt)
        : path_(socket), allows_in_probe_(std::move(allows)), more_(std::move(more)) {
        sockaddr_un address{.sun_family = AF_UNIX};
        std::strncpy(address.sun_path, socket.c_str(), sizeof address.sun_path - 1);
        ::unlink(socket.c_str());
        listener_ = unique_fd(
            check(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), "make the fake keeper's socket"));
        check(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              "bind it");
        check(::listen(listener_.get(), 8), "listen");
        wake_ = unique_fd(check(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "make an eventfd"));
        thread_ = std::thread([this] { serve(); });
    }
    fake_keeper(const fake_keeper&) = delete;
    fake_keeper& operator=(const fake_keeper&) = delete;
    ~fake_keeper() {
        stop_ = true;
        poke();
        thread_.join();
        for (auto& [id, one] : cages_) end(one);
        ::unlink(path_.c_str());
    }

    // From any thread; sent to every agent that asked for denials.
    void deny(const pinfold_denial& what) {
        const std::scoped_lock held(lock_);
        denials_.push_back(what);
        poke();
    }
    std::atomic<std::uint64_t> last_cage{0};
    std::atomic<unsigned> makes{0}, removes{0}, signals{0}, probes{0};
    std::atomic<bool> memory_kill{false}; // how the next ends are told
    std::atomic<int> make_delay_ms{0};
    std::string refuse_make; // set before the agent connects
    wire::explained told{.rule = PINFOLD_RULE_PRIVATE,
                         .guarded = true}; // what the guards answer to any destination
    cage_spec last_spec;                   // read it when nothing is being made

private:
    struct child {
        pid_t pid = 0;
        unique_fd pidfd;
    };
    struct fake_cage {
        std::uint64_t id = 0;
        cage_spec spec;
        bool running = false;
        std::vector<unique_fd> inside, network; // the program's ends; the relay's peers
        std::map<std::uint32_t, child> programs;
    };

    void poke() {
        const std::uint64_t one = 1;
        std::ignore = ::write(wake_.get(), &one, sizeof one);
    }

    void serve() {
        while (!stop_) {
            std::vector<pollfd> ready{{listener_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
            ready.push_back({agent_ ? agent_->fd() : -1, POLLIN, 0});
            std::vector<std::pair<std::uint64_t, std::uint32_t>> who;
            for (auto& [id, one] : cages_) {
                for (auto& [number, program] : one.programs) {
                    ready.push_back({program.pidfd.get(), POLLIN, 0});
                    who.emplace_back(id, number);
                }
            }
            ::poll(ready.data(), ready.size(), -1);
            if (stop_) return;
            if (ready[0].revents != 0)
                agent_.emplace(unique_fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
            if (ready[1].revents != 0) send_denials();
            for (std::size_t i = 0; i < who.size(); ++i) {
                if (ready[3 + i].revents != 0) program_ended(who[i].first, who[i].second);
            }
            if (ready[2].revents != 0) receive();
        }
    }

    void send_denials() {
        std::uint64_t ignored = 0;
        std::ignore = ::read(wake_.get(), &ignored, sizeof ignored);
        const std::scoped_lock held(lock_);
        if (!agent_ || denials_.empty()) return;
        agent_->send({.body = wire::denials{.list = std::exchange(denials_, {})}});
    }

    void receive() {
        auto got = agent_->receive(false);
        if (!got || std::holds_alternative<wire::channel::nothing_yet>(*got)) return;
        if (std::holds_alternative<wire::channel::closed>(
                *got)) { // as the real one: the agent's cages end with it
            agent_.reset();
            for (auto& [id, one] : cages_) end(one);
            cages_.clear();
            return;
        }
        auto& question = std::get<wire::message>(*got);
        wire::message answer{.body = wire::ok{}};
        try {
            std::visit([&](auto& what) { act(what, answer); }, question.body);
        } catch (const std::exception& error) {
            answer = {.body = wire::failed{.text = error.what()}};
        }
        answer.number = question.number;
        agent_->send(answer);
    }

    template <typename Other>
    void act(Other&, wire::message&) {
        fail("the fake keeper does not know this message");
    }
    void act(wire::hello& what, wire::message&) {
        if (what.version != wire::version) fail("wrong version");
    }
    void act(wire::make& what, wire::message& answer) {
        ++makes;
        std::this_thread::sleep_for(std::chrono::milliseconds(make_delay_ms.load()));
        if (!refuse_make.empty()) fail("{}", refuse_make);
        for (auto& [id, one] : cages_) {
            if (one.spec.name == what.spec.name) fail("a cage named {} is already running", what.spec.name);
        }
        last_spec = what.spec;
        make(what.spec, answer);
    }
    void act(wire::probe& what, wire::message& answer) {
        cage_spec spec{.name = "doctor", .mode = what.mode};
        const std::string said = "TCP to the agents' port\trefused\tEACCES\nraw sockets\trefused\tEACCES\n"
                                 "IP options\trefused\tEACCES\nbpf\trefused\tEPERM\n" +
                                 (allows_in_probe_.empty() ? "" : allows_in_probe_ + "\tallowed\t\n") +
                                 (what.mode == cage_mode::caged ? "user namespaces\tallowed\t\n" : "");
        spec.command = {.argv = {"printf", "%s", said}, .directory = "/"};
        ++probes;
        make(spec, answer, ++last_scratch_);
    }
    void act(wire::start& what, wire::message&) {
        fake_cage& one = cages_.at(what.cage);
        one.programs[0] = spawn(one.spec.command, one.inside);
        one.inside.clear();
        one.running = true;
        if (one.spec.name == "doctor") deny_probe(what.cage);
    }
    void act(wire::exec& what, wire::message& answer) {
        fake_cage& one = cages_.at(what.cage);
        std::vector<unique_fd> inside;
        streams(what.command, inside, answer.fds);
        const auto number = static_cast<std::uint32_t>(++last_process_);
        one.programs[number] = spawn(what.command, inside);
        answer.body = wire::entered{.process = number, .terminal = what.command.terminal.has_value()};
    }
    void act(wire::signal_process& what, wire::message&) {
        ++signals;
        ::kill(-cages_.at(what.cage).programs.at(what.process).pid, static_cast<int>(what.signal));
    }
    void act(wire::set_limits& what, wire::message&) { cages_.at(what.cage).spec.limits = what.limits; }
    void act(wire::list&, wire::message& answer) {
        wire::cages all;
        for (auto& [id, one] : cages_)
            all.list.push_back({.cage = id,
                                .name = one.spec.name,
                                .mode = one.spec.mode,
                                .state = "running",
                                .project = one.spec.project,
                                .image = one.spec.image,
                                .limits = one.spec.limits,
                                .first_pid = 4711,
                                .id_base = 1000000,
                                .started_unix = 1700000000,
                                .memory_bytes = 1 << 20,
                                .processes = 2});
        answer.body = std::move(all);
    }
    void act(wire::remove_cage& what, wire::message&) {
        ++removes;
        for (auto& [id, one] : cages_) {
            if (one.spec.name != what.name) continue;
            for (auto& [number, program] : one.programs) ::kill(-program.pid, SIGKILL);
            return;
        }
        fail("there is no cage named {}", what.name);
    }
    void act(wire::plan_request& what, wire::message& answer) {
        answer.body = wire::plan_text{.steps = {"make the cgroup of " + what.spec.name, "start the child"}};
    }
    // What the probe said was refused is told too, before its end.
    void deny_probe(std::uint64_t cage) {
        wire::denials all;
        for (const std::uint32_t act : {PINFOLD_ACT_CONNECT, PINFOLD_ACT_OPTION})
            all.list.push_back({.cage = cage, .act = act, .rule = PINFOLD_RULE_RESERVED});
        agent_->send({.body = std::move(all)});
    }
    void act(wire::explain&, wire::message& answer) { answer.body = told; }
    void act(wire::facts_request&, wire::message& answer) {
        wire::facts all{.list = {{.name = "kernel", .value = "6.1", .good = true}}};
        if (more_) all.list.push_back(*more_);
        answer.body = std::move(all);
    }

    void make(const cage_spec& spec, wire::message& answer, std::uint64_t scratch = 0) {
        fake_cage one{.id = scratch != 0 ? scratch : ++last_cage, .spec = spec};
        std::array<int, 2> tun{};
        check(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, tun.data()), "make a tun");
        answer.fds.emplace_back(tun[0]);
        one.network.emplace_back(tun[1]);
        unique_fd listener(
            check(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "make a listener"));
        const sockaddr_in any{
            .sin_family = AF_INET, .sin_port = 0, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
        check(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any), "bind it");
        check(::listen(listener.get(), 1), "listen");
        answer.fds.push_back(std::move(listener));
        streams(spec.command, one.inside, answer.fds);
        answer.body = wire::made{.cage = one.id,
                                 .terminal = spec.command.terminal.has_value(),
                                 .notes = {"limits: not enforced: memory"}};
        cages_.emplace(one.id, std::move(one));
    }

    static void streams(const command_spec& command, std::vector<unique_fd>& inside,
                        std::vector<unique_fd>& outside) {
        if (command.terminal) {
            unique_fd master(check(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), "open a pty"));
            ::unlockpt(master.get());
            const winsize size{.ws_row = command.terminal->rows, .ws_col = command.terminal->columns};
            ::ioctl(master.get(), TIOCSWINSZ, &size);
            inside.emplace_back(::open(::ptsname(master.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
            outside.push_back(std::move(master));
            return;
        }
        for (int i = 0; i < 3; ++i) {
            std::array<int, 2> ends{};
            check(::pipe2(ends.data(), O_CLOEXEC), "make a pipe");
            inside.emplace_back(ends[i == 0 ? 0 : 1]);
            outside.emplace_back(ends[i == 0 ? 1 : 0]);
        }
    }

    static child spawn(const command_spec& command, const std::vector<unique_fd>& inside) {
        std::vector<char*> argv, environment;
        for (const auto& each : command.argv) argv.push_back(const_cast<char*>(each.c_str()));
        for (const auto& each : command.environment) environment.push_back(const_cast<char*>(each.c_str()));
        argv.push_back(nullptr);
        environment.push_back(nullptr);
        posix_spawn_file_actions_t actions;
        ::posix_spawn_file_actions_init(&actions);
        if (command.terminal) { // opened again by a session leader, it becomes the controlling terminal
            const std::string path = "/proc/self/fd/" + std::to_string(inside[0].get());
            ::posix_spawn_file_actions_addopen(&actions, 0, path.c_str(), O_RDWR, 0);
            for (int i = 1; i < 3; ++i) ::posix_spawn_file_actions_adddup2(&actions, 0, i);
        }
        for (int i = 0; i < 3 && !command.terminal; ++i)
            ::posix_spawn_file_actions_adddup2(&actions, inside[static_cast<std::size_t>(i)].get(), i);
        if (!command.directory.empty())
            ::posix_spawn_file_actions_addchdir_np(&actions, command.directory.c_str());
        posix_spawnattr_t how;
        ::posix_spawnattr_init(&how);
        ::posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
        sigset_t all;
        ::sigfillset(&all);
        ::posix_spawnattr_setsigdefault(&how, &all);
        child made;
        const int error = ::posix_spawnp(&made.pid, argv[0], &actions, &how, argv.data(), environment.data());
        ::posix_spawn_file_actions_destroy(&actions);
        ::posix_spawnattr_destroy(&how);
        if (error != 0) fail("exec {}: {}", command.argv.front(), std::strerror(error));
        made.pidfd = unique_fd(static_cast<int>(::syscall(SYS_pidfd_open, made.pid, 0)));
        return made;
    }

    void program_ended(std::uint64_t id, std::uint32_t number) {
        if (!cages_.contains(id) || !cages_.at(id).programs.contains(number))
            return; // it went with its cage just now
        fake_cage& one = cages_.at(id);
        int status = 0;
        ::waitpid(one.programs.at(number).pid, &status, 0);
        one.programs.erase(number);
        const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (agent_)
            agent_->send({.body = wire::ended{.cage = id,
                                              .process = number,
                                              .status = code,
                                              .memory_kill = memory_kill,
                                              .memory_peak = 12345678}});
        if (number != 0) return;
        end(one);
        cages_.erase(id);
    }

    static void end(fake_cage& one) {
        for (auto& [number, program] : one.programs) {
            ::kill(-program.pid, SIGKILL);
            ::waitpid(program.pid, nullptr, 0);
        }
        one.programs.clear();
    }

    std::filesystem::path path_;
    std::string allows_in_probe_;
    std::optional<wire::fact> more_;
    unique_fd listener_, wake_;
    std::optional<wire::channel> agent_;
    std::map<std::uint64_t, fake_cage> cages_;
    std::mutex lock_;
    std::vector<pinfold_denial> denials_;
    std::uint64_t last_process_ = 0, last_scratch_ = std::uint64_t{1} << 40;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

} // namespace pinfold::test
