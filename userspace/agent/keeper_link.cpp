#include "agent/keeper_link.hpp"

#include <algorithm>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <tuple>

namespace pinfold {

namespace {

constexpr std::chrono::milliseconds first_pause{100};
constexpr std::chrono::milliseconds longest_pause{5000};

} // namespace

keeper_link::keeper_link(uring& ring, std::filesystem::path socket, observer& watcher)
    : ring_(ring), socket_(std::move(socket)), watcher_(watcher) {}

keeper_link::~keeper_link() = default;

task<> keeper_link::run() {
    std::chrono::milliseconds pause = first_pause;
    while (!stopped_) {
        wake_.reset();
        if (channel_ || try_connect()) {
            std::ignore = co_await poll_once(ring_, channel_->fd(), POLLIN);
            if (!stopped_) read_all();
            if (channel_) {
                if (greeted_) pause = first_pause;
                continue;
            }
        }
        if (stopped_) break;
        std::ignore = co_await wait_within(ring_, wake_, pause);
        pause = std::min(pause * 2, longest_pause);
    }
    lose("the agent is stopping");
}

void keeper_link::stop() {
    stopped_ = true;
    if (channel_) ring_.cancel(channel_->fd());
    wake_.set();
}

// Without waiting: a Unix socket connects at once or not at all. hello goes first, whatever comes next.
bool keeper_link::try_connect() {
    try {
        auto fresh = std::make_unique<wire::channel>(wire::channel::connect(socket_));
        hello_ = ++last_number_;
        fresh->send({.number = hello_, .body = wire::hello{.version = wire::version, .denials = true}});
        channel_ = std::move(fresh);
        return true;
    } catch (const std::exception& error) {
        if (trouble_ != error.what()) spdlog::warn("{}", error.what());
        trouble_ = error.what();
        return false;
    }
}

// Everybody who waits for an answer learns that none will come.
void keeper_link::lose(const std::string& why) {
    if (!channel_) return;
    spdlog::warn("the connection to the keeper ended: {}", why);
    trouble_ = fmt::format("the keeper at {} is gone: {}", socket_.native(), why);
    const bool was_greeted = std::exchange(greeted_, false);
    channel_.reset();
    const auto waiting = std::exchange(pending_, {});
    for (const auto& [number, one] : waiting) one->done.set();
    if (was_greeted) watcher_.keeper_lost();
}

void keeper_link::read_all() {
    while (channel_) {
        try {
            auto got = channel_->receive(false);
            if (!got) return lose(got.error().text());
            if (std::holds_alternative<wire::channel::nothing_yet>(*got)) return;
            if (std::holds_alternative<wire::channel::closed>(*got)) return lose("it closed the connection");
            take(std::move(std::get<wire::message>(*got)));
        } catch (const std::system_error& error) {
            return lose(error.what());
        }
    }
}

void keeper_link::take(wire::message what) {
    if (what.number == 0) {
        if (const auto* ended = std::get_if<wire::ended>(&what.body)) return watcher_.program_ended(*ended);
        if (const auto* denials = std::get_if<wire::denials>(&what.body))
            return watcher_.denials_came(*denials);
        return;
    }
    if (!greeted_ && what.number == hello_) {
        if (const auto* no = std::get_if<wire::failed>(&what.body)) return lose(no->text);
        greeted_ = true;
        spdlog::info("connected to the keeper at {}", socket_.native());
        trouble_.clear();
        return watcher_.keeper_connected();
    }
    const auto found = pending_.find(what.number);
    if (found == pending_.end()) return;
    const std::shared_ptr<pending> asked = found->second;
    pending_.erase(found);
    asked->answer = std::move(what);
    asked->done.set(); // goes on here, before the next message is read: what follows finds its cage known
}

task<wire::message> keeper_link::request(wire::body question) {
    if (stopped_) throw keeper_unreachable("the agent is stopping");
    if (!channel_) {
        if (!try_connect())
            throw keeper_unreachable(
                fmt::format("{}; start it with 'systemctl start pinfold-keeper'", trouble_));
        wake_.set();
    }
    auto asked = std::make_shared<pending>();
    const std::uint32_t number = ++last_number_;
    {
        // One at a time, so that a keeper with a full socket sees them in order; it is waited for without blocking.
        const one_by_one::turn turn = co_await sending_.take();
        const wire::message message{.number = number, .body = std::move(question)};
        for (bool sent = false; !sent;) {
            if (!channel_) throw keeper_unreachable(trouble_);
            sent = channel_->try_send(message);
            if (!sent) std::ignore = co_await poll_once(ring_, channel_->fd(), POLLOUT);
        }
        pending_.emplace(number, asked);
    }
    co_await asked->done.wait();
    std::optional<wire::message>& answer = asked->answer;
    if (!answer) throw keeper_unreachable(trouble_);
    if (const auto* no = std::get_if<wire::failed>(&answer->body)) throw keeper_refused(no->text);
    co_return std::move(*answer);
}

} // namespace pinfold
