#include "agent/proxy/proxy.hpp"

#include "agent/http_chunk.hpp"
#include "agent/proxy/connection.hpp"
#include "base/error.hpp"
#include "base/file.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace pinfold {

using namespace std::chrono_literals;

namespace {

constexpr std::size_t most_idle = 32;
constexpr std::size_t most_reserved = std::size_t{32} * 1024; // for an answer that comes whole
constexpr std::chrono::milliseconds prompt{20};     // who answers at once is not worth a watch on the asker
constexpr std::chrono::seconds answer_time = 11min; // a blocking SendMessage holds for ten

unique_fd listen_in(const std::filesystem::path& directory) {
    const unique_fd opened = make_directory(directory);
    // A short name however deep the directory is: a socket's address holds 107 bytes.
    const std::string path = fmt::format("/proc/self/fd/{}/{}", opened.get(), proxy::socket_name);
    ::unlinkat(opened.get(), proxy::socket_name, 0);
    sockaddr_un name{.sun_family = AF_UNIX};
    std::memcpy(name.sun_path, path.data(), path.size());
    unique_fd listener(check(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), "make a proxy socket"));
    check(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name),
          "bind the proxy socket in {}", directory.native());
    // Everybody in the cage may connect; outside the directory is the owner's alone.
    check(::fchmodat(opened.get(), proxy::socket_name, 0666, 0), "open the proxy socket in {}",
          directory.native());
    check(::listen(listener.get(), 128), "listen at the proxy socket in {}", directory.native());
    return listener;
}

void add_field(std::string& head, std::string_view name, std::string_view value) {
    head.append(name) += ": ";
    head.append(value) += "\r\n";
}

std::string answer_head(const peer::answer& from, bool keep_alive) {
    const auto reason = boost::beast::http::obsolete_reason(
        static_cast<boost::beast::http::status>(from.status));
    std::string head;
    head.reserve(512 + std::min<std::uint64_t>(from.length.value_or(0), most_reserved));
    head.append("HTTP/1.1 ").append(std::to_string(from.status)) += ' ';
    head.append(reason.data(), reason.size()) += "\r\n";
    if (!from.content_type.empty()) add_field(head, "Content-Type", from.content_type);
    if (!from.cache_control.empty()) add_field(head, "Cache-Control", from.cache_control);
    if (from.length)
        add_field(head, "Content-Length", std::to_string(*from.length));
    else
        head += "Transfer-Encoding: chunked\r\n";
    if (!keep_alive) head += "Connection: close\r\n";
    head += "\r\n";
    return head;
}

std::string_view key_of(const cage_ask& ask) {
    return ask.own ? std::string_view() : std::string_view(ask.addr);
}

std::string whole_answer(std::string_view json, bool keep_alive) {
    return fmt::format("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{}\r\n{}",
                       json.size(), keep_alive ? "" : "Connection: close\r\n", json);
}

} // namespace

struct proxy::door {
    unique_fd listener;
    attribution who;
    std::set<visit*> visits;
    event room;
    bool closed = false;
};

struct proxy::visit : std::enable_shared_from_this<visit> {
    visit(uring& ring, door_pointer door, unique_fd socket)
        : at(std::move(door)), connection(ring, std::move(socket)) {
        watched.set();
    }
    void hang_up() noexcept {
        connection.hang_up();
        if (upstream != nullptr) upstream->cut();
    }

    door_pointer at;
    proxy_connection connection;
    peer* upstream = nullptr; // while an answer is waited for
    event watched;            // nobody watches the asker
    bool answered = false;    // a byte of an answer was sent: too late for another
};

proxy::proxy(uring& ring, task_group& group, settings with)
    : ring_(ring), group_(group), with_(std::move(with)), machines_(ring, with_.machines) {}

proxy::~proxy() = default;

void proxy::open(const std::filesystem::path& directory, attribution who) {
    if (stopping_ || doors_.contains(directory)) return;
    auto made = std::make_shared<door>();
    made->listener = listen_in(directory);
    made->who = std::move(who);
    doors_.emplace(directory, made);
    group_.spawn(&proxy::accept_all, this, std::move(made));
}

void proxy::close(const std::filesystem::path& directory) {
    const auto found = doors_.find(directory);
    if (found == doors_.end()) return;
    door& gone = *found->second;
    gone.closed = true;
    ring_.cancel(gone.listener.get());
    gone.room.pulse();
    for (visit* each : gone.visits) each->hang_up();
    std::error_code ignored;
    std::filesystem::remove(directory / socket_name, ignored);
    std::filesystem::remove(directory, ignored);
    doors_.erase(found);
}

void proxy::stop() {
    stopping_ = true;
    while (!doors_.empty()) close(std::filesystem::path(doors_.begin()->first));
    idle_.clear();
}

task<> proxy::accept_all(proxy* self, door_pointer at) {
    ++self->running_;
    while (!at->closed) {
        if (at->visits.size() >= most_connections) {
            co_await at->room.wait();
            continue;
        }
        unique_fd socket(co_await accept(self->ring_, at->listener.get()));
        if (at->closed) break;
        if (!socket) { // out of file descriptors, most likely
            std::ignore = co_await sleep_for(self->ring_, 100ms);
            continue;
        }
        auto of = std::make_shared<visit>(self->ring_, at, std::move(socket));
        at->visits.insert(of.get());
        self->group_.spawn(&proxy::serve, self, std::move(of));
    }
    --self->running_;
}

task<> proxy::serve(proxy* self, visit_pointer of) {
    ++self->running_;
    try {
        while (!of->at->closed && co_await of->connection.read_head())
            if (!co_await self->answer_one(*of)) break;
        if (const auto& refusal = of->connection.refusal())
            std::ignore = co_await of->connection.send(to_bytes(*refusal));
    } catch (const std::exception& error) {
        spdlog::warn("a proxy socket: {}", error.what());
    }
    of->hang_up();
    of->at->visits.erase(of.get());
    of->at->room.pulse();
    --self->running_;
}

task<bool> proxy::answer_one(visit& of) {
    of.answered = false;
    const auto asker = of.at->who();
    if (!asker) co_return co_await refuse(of, {403, "the session of this socket is gone"});
    std::shared_ptr<const known_machines> known;
    std::string unknown;
    try {
        known = machines_.fresh();
        if (!known) known = co_await machines_.read();
    } catch (const std::exception& error) {
        unknown = error.what();
    }
    const std::span<const machine> machines = known ? std::span(known->machines) : std::span<const machine>();
    const auto ask = judge_head(of.connection.head(), *asker, machines);
    if (!ask && (ask.error().status != 502 || unknown.empty())) co_return co_await refuse(of, ask.error());
    if (!unknown.empty()) co_return co_await refuse(of, {502, "the machines are not known: " + unknown});
    if (ask->kind == proxy_kind::machines) {
        const bool keep = of.connection.keep_alive() && of.connection.announced() == 0;
        co_return co_await of.connection.send(whole_answer(machines_json(machines), keep)) >= 0 && keep;
    }
    std::string failure;
    try {
        co_return co_await forward(of, *ask, *asker, machines.front().name);
    } catch (const std::exception& error) {
        failure = error.what();
    }
    if (!of.answered) co_return co_await refuse(of, {502, failure});
    spdlog::warn("session {}: an agent's answer was cut: {}", asker->session, failure);
    co_return false; // without the mark of a whole answer
}

// Null where none is left.
std::unique_ptr<peer> proxy::take_idle(const cage_ask& ask) {
    while (true) {
        const auto found = std::ranges::find(idle_, key_of(ask), &idle_peer::key);
        if (found == idle_.end()) return nullptr;
        std::unique_ptr<peer> kept = std::move(found->connection);
        std::swap(*found, idle_.back());
        idle_.pop_back();
        if (kept->is_fresh()) return kept;
    }
}

task<std::unique_ptr<peer>> proxy::reach(const cage_ask& ask) {
    auto made = std::make_unique<peer>(ring_);
    if (ask.own)
        co_await made->connect(with_.own_agent);
    else
        co_await made->connect(ask.addr, with_.port);
    co_return made;
}

// A blocking question is held for minutes: when the asker goes, the one who is asked must know.
task<> proxy::watch_asker(proxy* self, visit_pointer of) {
    // The ring adds POLLRDHUP to what is asked for. One who sends no more still listens: only the end of both directions
    // counts, and of one who has stopped sending it is seen when the answer is written.
    const int events = co_await poll_once(self->ring_, of->connection.fd(), 0);
    if (events > 0 && (events & (POLLHUP | POLLERR)) != 0 && of->upstream != nullptr) of->upstream->cut();
    of->watched.set();
}

task<bool> proxy::forward(visit& of, const cage_ask& ask, const proxy_asker& asker, std::string_view self) {
    const proxy_head& head = of.connection.head();
    const bool is_file = ask.kind == proxy_kind::drop;
    std::optional<std::uint64_t> length = of.connection.announced();
    std::string body;
    if (is_file && length.value_or(0) > largest_drop)
        co_return co_await refuse(of, {413, "the file is larger than 100 MiB"});
    if (!is_file) {
        auto read = co_await of.connection.read_body(largest_ask);
        if (!read) co_return false;
        auto rewritten = rewrite_body(ask, head, std::move(*read), asker, self);
        if (!rewritten) co_return co_await refuse(of, rewritten.error());
        body = std::move(*rewritten);
        length = body.size();
    }
    std::unique_ptr<peer> to = take_idle(ask);
    if (!to) to = co_await reach(ask);
    of.upstream = to.get();
    std::exception_ptr failure;
    bool more = false;
    try {
        const std::string out = forwarded_head(ask, head, asker, length, body);
        co_await to->send(out);
        if (is_file) co_await pass_file(of, *to, length.has_value());
        if (ask.kind == proxy_kind::rpc && !to->answered(co_await to->listen(prompt))) {
            of.watched.reset();
            group_.spawn(&proxy::watch_asker, this, of.shared_from_this());
        }
        more = co_await pass_answer(of, *to);
    } catch (...) {
        failure = std::current_exception();
    }
    of.upstream = nullptr;
    if (!of.watched.is_set()) ring_.cancel(of.connection.fd());
    co_await of.watched.wait();
    if (failure) std::rethrow_exception(failure);
    if (to->may_be_kept() && !stopping_ && idle_.size() < most_idle)
        idle_.push_back({std::string(key_of(ask)), std::move(to)});
    co_return more;
}

task<bool> proxy::refuse(visit& of, proxy_refusal why) {
    of.answered = true;
    std::ignore = co_await of.connection.send(to_bytes(why));
    co_return false;
}

task<> proxy::pass_file(visit& of, peer& to, bool has_length) {
    while (true) {
        const auto part = co_await of.connection.read_part();
        if (!part) fail("the file did not come whole"); // cut for the receiver, too: it keeps nothing
        if (part->empty()) break;
        co_await to.send(has_length ? *part : http_chunk(*part));
    }
    if (!has_length) co_await to.send(http_chunk({}));
}

// Each part goes on as it comes: a model's words are read by somebody who waits for them.
task<bool> proxy::pass_answer(visit& of, peer& from) {
    const peer::answer head = co_await from.read_head(answer_time);
    const bool keep_alive = of.connection.keep_alive() && !stopping_;
    const bool chunked = !head.length;
    std::string out = answer_head(head, keep_alive);
    of.answered = true;
    if (chunked) { // its first part may be long in coming
        if (co_await of.connection.send(out) < 0) co_return false;
        out.clear();
    }
    while (true) {
        const std::string part = from.is_whole() ? std::string() : co_await from.read_body();
        if (!part.empty()) out += chunked ? http_chunk(part) : part;
        if (part.empty() && chunked) out += http_chunk({});
        if (!out.empty() && co_await of.connection.send(out) < 0) co_return false;
        if (part.empty()) co_return keep_alive;
        out.clear();
    }
}

} // namespace pinfold
