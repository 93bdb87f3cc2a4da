#include "keeper/keeper.hpp"

#include "base/error.hpp"
#include "base/file.hpp"
#include "cage/syscalls.hpp"
#include "keeper/machine.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

namespace pinfold {

namespace {

constexpr int waiting_connections = 64;

// One keeper for one run directory: a second would end the first one's cages as leftovers.
unique_fd lock_run_dir(const std::filesystem::path& run_dir) {
    const unique_fd folder = make_directory(run_dir, 0755);
    check(::fchmod(folder.get(), 0755), "open {} to the agents", run_dir.native()); // past the umask
    unique_fd lock(check(::openat(folder.get(), "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600),
                         "open the lock of {}", run_dir.native()));
    // A lock of the process, not of the open file: a child that was just being cloned when the last keeper was killed has a
    // copy of the descriptor, and may wait long for its turn to close it.
    struct flock whole{};
    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    if (::fcntl(lock.get(), F_SETLK, &whole) == 0) return lock;
    if (errno != EAGAIN && errno != EACCES) fail_errno(errno, "lock {}", run_dir.native());
    check(::fcntl(lock.get(), F_GETLK, &whole), "ask who holds the lock of {}", run_dir.native());
    fail("another keeper (process {}) runs on {}: stop it first", whole.l_pid, run_dir.native());
}

unique_fd listen_on(const std::filesystem::path& path, unsigned mode) {
    sockaddr_un address{.sun_family = AF_UNIX};
    if (path.native().size() >= sizeof address.sun_path)
        fail("listen at {}: the path of a socket has at most {} bytes; choose a shorter --run-dir",
             path.native(), sizeof address.sun_path - 1);
    std::memcpy(address.sun_path, path.c_str(), path.native().size());
    unique_fd socket(check(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                           "make the keeper's socket"));
    (void)::unlink(path.c_str()); // the lock is ours, so nobody listens there
    check(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), "listen at {}",
          path.native());
    check(::chmod(path.c_str(), mode), "open {} to the agents", path.native());
    check(::listen(socket.get(), waiting_connections), "listen at {}", path.native());
    return socket;
}

unique_fd signal_source() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    check(::sigprocmask(SIG_BLOCK, &set, nullptr), "block the signals that end the keeper");
    return unique_fd(check(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), "wait for signals"));
}

std::filesystem::path anchored(const std::filesystem::path& run_dir, const char* name) {
    return run_dir / name;
}

} // namespace

keeper::keeper(const keeper_options& options)
    : options_(options),
      run_lock_(lock_run_dir(options.run_dir)),
      cgroups_(options.cgroup),
      anchor_(cgroup::make(cgroups_.fd(), "anchor")),
      places_(anchored(options.run_dir, "scratch")),
      trees_(anchored(options.run_dir, "trees")),
      guards_(options.bpf_dir, anchor_.fd()),
      steering_(options.bpf_dir),
      networks_(steering_, options.spare_networks),
      ids_(options.first_id != 0 ? options.first_id : first_pool_id,
           options.last_id != 0 ? options.last_id : last_pool_id),
      images_(options.state_dir / "images"),
      records_(options.run_dir / "cages"),
      kept_(options.state_dir / "cages"),
      facts_(find_facts(cgroups_, options.accept_unlimited)),
      init_program_(load_program(options.libexec, "pinfold-init")),
      probe_program_(load_program(options.libexec, "pinfold-probe")),
      tools_{.cgroups = cgroups_,
             .guard_programs = guards_,
             .steering_programs = steering_,
             .networks = networks_,
             .places = places_,
             .trees = trees_,
             .ids = ids_,
             .sealed_filter = compile_filter(cage_mode::sealed),
             .caged_filter = compile_filter(cage_mode::caged),
             .init_program = init_program_.get()},
      signals_(signal_source()) {
    guards_.set_local_prefixes(routes_.refresh());
    take_over();
    await_claims();
    listener_ = listen_on(options_.socket(), options_.socket_mode);
    events_.watch(listener_.get(), EPOLLIN, [this](std::uint32_t) { accept_clients(); });
    events_.watch(routes_.fd(), EPOLLIN,
                  [this](std::uint32_t) { guards_.set_local_prefixes(routes_.refresh()); });
    events_.watch(guards_.denials_fd(), EPOLLIN, [this](std::uint32_t) { pass_denials(); });
    events_.when_idle([this] { return prepare_ahead(); });
    events_.watch(signals_.get(), EPOLLIN, [this](std::uint32_t) { stop_on_signals(); });
}

keeper::~keeper() {
    for (auto& [id, held] : cages_) {
        held.built->leave_running();
        for (auto& [number, each] : held.entered) each.program.held.let_go();
    }
    (void)::unlink(options_.socket().c_str());
}

void keeper::run() {
    spdlog::info("pinfold-keeper " PINFOLD_VERSION " serves at {}", options_.socket().native());
    events_.run();
    if (!cages_.empty())
        spdlog::info("{} cages go on, guarded; the next keeper takes them over", cages_.size());
}

void keeper::stop_on_signals() {
    signalfd_siginfo info{};
    if (::read(signals_.get(), &info, sizeof info) == sizeof info) events_.stop();
}

bool keeper::prepare_ahead() {
    try {
        return networks_.fill_one();
    } catch (const std::exception& error) {
        spdlog::warn("prepare a network ahead: {}; the next cage makes its own", error.what());
        return false;
    }
}

void keeper::accept_clients() {
    for (;;) {
        unique_fd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!connection) {
            if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
                spdlog::error("take an agent's connection: {}", std::generic_category().message(errno));
            return;
        }
        try {
            const int fd = connection.get();
            auto joined = std::make_unique<client>(std::move(connection), events_);
            events_.watch(fd, EPOLLIN, [this, fd](std::uint32_t events) { serve(fd, events); });
            clients_[fd] = std::move(joined);
        } catch (const std::exception& error) {
            spdlog::error("take an agent's connection: {}", error.what());
        }
    }
}

// One message at a time: an agent that asks without end does not keep the others waiting.
void keeper::serve(int fd, std::uint32_t events) {
    client& from = *clients_.at(fd);
    try {
        if ((events & EPOLLOUT) != 0 && !from.flush()) return drop(fd);
        if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0) return;
        auto received = from.receive();
        if (!received) {
            spdlog::warn("the agent of uid {} sent what is no message ({}): its connection is closed",
                         from.who().uid, received.error().text());
            return drop(fd);
        }
        if (std::holds_alternative<wire::channel::closed>(*received)) return drop(fd);
        if (auto* request = std::get_if<wire::message>(&*received))
            handle_request(*this, from, std::move(*request));
    } catch (const std::exception& error) {
        spdlog::info("the agent of uid {}: {}", from.who().uid, error.what());
        drop(fd);
    }
}

// Without its agent a cage has no network and nobody to talk to: what the agent made ends with it.
void keeper::drop(int fd) {
    std::vector<std::uint64_t> orphans;
    for (const auto& [id, held] : cages_) {
        if (held.client_fd == fd) orphans.push_back(id);
    }
    clients_.erase(fd);
    for (const std::uint64_t id : orphans) {
        spdlog::info("cage {} ends: its agent is gone", cage_name(id));
        forget(id);
    }
}

void keeper::send_to(int fd, wire::message what) {
    const auto found = clients_.find(fd);
    if (found == clients_.end() || found->second->send(std::move(what))) return;
    events_.later([this, fd] {
        if (clients_.contains(fd)) drop(fd);
    });
}

// Without a policy a guard knows no cage, only the cgroup (denial.h).
held_cage* keeper::find_denied(const pinfold_denial& what) {
    const auto found = cages_.find(what.cage);
    if (found != cages_.end()) return &found->second;
    if (what.rule != PINFOLD_RULE_NO_POLICY) return nullptr;
    for (auto& [id, held] : cages_) {
        if (held.built->group().id() == what.cage) return &held;
    }
    return nullptr;
}

void keeper::pass_denials() {
    std::map<int, wire::denials> to;
    guards_.take_denials([&](const pinfold_denial& each) {
        const held_cage* cage = find_denied(each);
        if (cage == nullptr) return;
        for (const auto& [fd, agent] : clients_) {
            if (!agent->wants_denials() || agent->who().uid != cage->state.owner) continue;
            to[fd].list.push_back(each);
            to[fd].list.back().cage = cage->state.cage;
        }
    });
    constexpr std::size_t most_in_one = 256; // stays far below the largest message
    for (auto& [fd, all] : to) {
        for (std::size_t at = 0; at < all.list.size(); at += most_in_one) {
            const auto first = all.list.begin() + static_cast<std::ptrdiff_t>(at);
            const auto last = all.list.begin() +
                              static_cast<std::ptrdiff_t>(std::min(at + most_in_one, all.list.size()));
            send_to(fd, {.body = wire::denials{.list = {first, last}, .lost = guards_.denials_lost()}});
        }
    }
}

} // namespace pinfold
