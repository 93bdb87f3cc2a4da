// A session's events as they come: server-sent events, from any number on.
#include "agent/api/session_routes.hpp"
#include "agent/sessions/event_text.hpp"

#include <poll.h>

namespace pinfold {

namespace {

constexpr std::size_t rows_at_once = 100;
constexpr std::chrono::seconds keepalive{20};

struct follower {
    std::shared_ptr<session> of;
    listener heard;
    bool gone = false;
    event ended;

    explicit follower(std::shared_ptr<session> whose) : of(std::move(whose)) {}
    follower(const follower&) = delete;
    follower& operator=(const follower&) = delete;
    ~follower() { of->forget(heard); }
};

// A client that leaves says nothing more; without this it would be noticed at the next event only.
task<> watch_client(services* with, int client, std::shared_ptr<follower> who) {
    std::ignore = co_await poll_once(with->owned.ring(), client, POLLRDHUP);
    who->gone = true;
    who->heard.news.pulse();
    who->ended.set();
}

task<bool> send_chunk(services& with, int client, std::string_view bytes) {
    const std::string chunk = http::chunk(bytes);
    co_return co_await send_all(with.owned.ring(), client, std::as_bytes(std::span(chunk))) >= 0;
}

// What is kept already, then what comes: between the last empty look and listening nothing can happen.
task<bool> catch_up(services& with, int client, follower& who, std::uint64_t after) {
    for (;;) {
        const std::vector<event_row> rows = with.listed->world().kept.events(who.of->row().id, after,
                                                                             rows_at_once);
        if (rows.empty()) break;
        std::string bytes;
        for (const event_row& each : rows) bytes += event_block(each, true);
        after = rows.back().seq;
        if (!co_await send_chunk(with, client, bytes) || who.gone || with.stopping) co_return false;
    }
    who.of->listen(who.heard);
    co_return true;
}

task<> follow(services& with, int client, follower& who) {
    while (!who.gone && !with.stopping) {
        std::string bytes;
        for (const auto& block : std::exchange(who.heard.blocks, {})) bytes += *block;
        if (bytes.empty()) {
            if (who.heard.lost) break;
            if (co_await wait_within(with.owned.ring(), who.heard.news, keepalive)) continue;
            bytes = ": keepalive\n\n";
        }
        if (!co_await send_chunk(with, client, bytes)) co_return;
    }
    std::ignore = co_await send_chunk(with, client, ""); // the end: whoever lagged comes again
}

} // namespace

task<std::optional<http::response>> follow_events(services& with, exchange& asked) {
    const std::shared_ptr<session> one = session_of(with, asked);
    std::uint64_t after = query_number(asked, "after", UINT64_MAX >> 1U, 0);
    const std::uint64_t tail = query_number(asked, "tail", 2000, 0);
    if (asked.request.fields.contains("last-event-id")) {
        asked.request.query["last-event-id"] = asked.request.fields.at("last-event-id");
        after = query_number(asked, "last-event-id", UINT64_MAX >> 1U, 0);
    }
    if (after == 0 && tail > 0) after = with.listed->world().kept.tail_begins(one->row().id, tail);
    const auto who = std::make_shared<follower>(one);
    const std::string head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
        "X-Content-Type-Options: nosniff\r\nTransfer-Encoding: chunked\r\n"
        "Connection: close\r\n\r\n";
    if (co_await send_all(with.owned.ring(), asked.client, std::as_bytes(std::span(head))) < 0)
        co_return std::nullopt;
    with.owned.group().spawn(watch_client, &with, asked.client, who);
    if (co_await catch_up(with, asked.client, *who, after)) co_await follow(with, asked.client, *who);
    with.owned.ring().cancel(asked.client);
    if (!who->ended.is_set()) co_await who->ended.wait();
    co_return std::nullopt;
}

} // namespace pinfold
