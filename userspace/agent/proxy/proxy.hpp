// The proxy sockets: one in each session's cage, the only way from a cage to an agent. Who sits behind one is not asked
// but known: it is the session whose socket it is.
#pragma once

#include "agent/event.hpp"
#include "agent/proxy/cage_ask.hpp"
#include "agent/proxy/machines.hpp"
#include "agent/proxy/peer.hpp"

#include <functional>
#include <map>
#include <set>

namespace pinfold {

class proxy {
public:
    // Of one cage. Further connections wait in the socket's queue: a cage that opens thousands waits for itself.
    static constexpr std::size_t most_connections = 256;
    static constexpr const char* socket_name = "proxy.sock";

    // Nothing = the session is gone, or asks nobody.
    using attribution = std::function<std::optional<proxy_asker>()>;

    struct settings {
        machine_list::settings machines;
        std::filesystem::path own_agent; // the socket of this agent's API
        std::uint16_t port = 7387;
    };

    proxy(uring& ring, task_group& group, settings with);
    proxy(const proxy&) = delete;
    proxy& operator=(const proxy&) = delete;
    ~proxy();

    // Listens at DIRECTORY/proxy.sock, which is to be mounted read-only in the cage. Replaces what a dead agent left.
    // Throws; nothing listens then. A directory that is open already is not opened twice.
    void open(const std::filesystem::path& directory, attribution who);
    void close(const std::filesystem::path& directory); // its connections end
    void stop();
    [[nodiscard]] bool ended() const noexcept { return doors_.empty() && running_ == 0; }

private:
    struct idle_peer {
        std::string key; // its address; empty = this agent
        std::unique_ptr<peer> connection;
    };
    struct door;
    struct visit;
    using door_pointer = std::shared_ptr<door>;
    using visit_pointer = std::shared_ptr<visit>;

    static task<> accept_all(proxy* self, door_pointer at);
    static task<> serve(proxy* self, visit_pointer of);
    static task<> watch_asker(proxy* self, visit_pointer of);
    task<bool> answer_one(visit& of);
    task<bool> forward(visit& of, const cage_ask& ask, const proxy_asker& asker, std::string_view self);
    task<bool> refuse(visit& of, proxy_refusal why);
    static task<> pass_file(visit& of, peer& to, bool has_length);
    task<bool> pass_answer(visit& of, peer& from);
    [[nodiscard]] std::unique_ptr<peer> take_idle(const cage_ask& ask);
    task<std::unique_ptr<peer>> reach(const cage_ask& ask);

    uring& ring_;
    task_group& group_;
    settings with_;
    machine_list machines_;
    std::map<std::filesystem::path, door_pointer> doors_;
    std::vector<idle_peer> idle_; // few
    std::size_t running_ = 0;
    bool stopping_ = false;
};

} // namespace pinfold
