#include "agent/api/json_out.hpp"
#include "agent/api/services.hpp"

#include <nlohmann/json.hpp>
#include <poll.h>

namespace pinfold {

using nlohmann::json;

namespace {

constexpr std::string_view ndjson = "application/x-ndjson";

struct follower {
    std::string cage; // empty = all
    std::uint64_t last = 0, lost = 0;
    bool gone = false;
    event ended;

    // What came since the last time, one line each.
    std::string news(const denial_log& from) {
        std::string lines;
        for (const denial_entry& each : from.entries()) {
            if (each.number <= last || each.scratch || (!cage.empty() && each.cage != cage)) continue;
            lines += to_line(to_json(each));
        }
        last = from.last_number();
        if (from.lost() != lost) lines += to_line({{"lost", from.lost()}});
        lost = from.lost();
        return lines;
    }
};

// A client that leaves says nothing more; without this it would be noticed at the next denial only.
task<> watch_client(services* with, int client, std::shared_ptr<follower> who) {
    std::ignore = co_await poll_once(with->owned.ring(), client, POLLRDHUP);
    who->gone = true;
    with->owned.denials().poke();
    who->ended.set();
}

task<> follow(services& with, int client, std::shared_ptr<follower> who) {
    uring& ring = with.owned.ring();
    denial_log& log = with.owned.denials();
    std::string bytes = http::chunked_head(ndjson);
    while (!who->gone && !with.stopping) {
        const std::string lines = who->news(log);
        if (!lines.empty()) bytes += http::chunk(lines);
        if (!bytes.empty() && co_await send_all(ring, client, std::as_bytes(std::span(bytes))) < 0) co_return;
        if (who->last == log.last_number() && !who->gone && !with.stopping) co_await log.change();
        bytes.clear();
    }
    bytes = http::chunk("");
    std::ignore = co_await send_all(ring, client, std::as_bytes(std::span(bytes)));
}

} // namespace

task<std::optional<http::response>> list_denials(services& with, exchange& asked) {
    auto who = std::make_shared<follower>();
    for (const auto& [key, value] : asked.request.query) {
        if (key == "cage")
            who->cage = value;
        else if (key != "follow" || (value != "0" && value != "1"))
            co_return answer_error(
                400, fmt::format("the query may hold 'cage=NAME' and 'follow=1', not '{}={}'", key, value));
    }
    const auto wanted = asked.request.query.find("follow");
    if (wanted == asked.request.query.end() || wanted->second == "0")
        co_return http::response{.body = who->news(with.owned.denials()), .type = std::string(ndjson)};
    with.owned.group().spawn(watch_client, &with, asked.client, who);
    co_await follow(with, asked.client, who);
    with.owned.ring().cancel(asked.client);
    if (!who->ended.is_set()) co_await who->ended.wait();
    co_return std::nullopt;
}

} // namespace pinfold
