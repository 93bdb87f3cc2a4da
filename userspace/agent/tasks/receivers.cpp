#include "agent/tasks/receivers.hpp"

#include "agent/event.hpp"
#include "agent/proxy/peer.hpp"
#include "agent/tasks/task_board.hpp"
#include "base/text.hpp"

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

namespace pinfold {

using nlohmann::json;

namespace {

constexpr std::chrono::seconds answer_time{5};
constexpr std::size_t largest_list = std::size_t{4} << 20;

struct round {
    std::vector<receiver> found;
    std::size_t open = 0;
    event ended;
};

struct reply {
    int status = 0;
    std::string body;
};

task<reply> ask(uring& ring, const machine& at, std::uint16_t port, std::string method, std::string path,
                std::string fields, std::string body) {
    const bool is_v6 = at.addr.find(':') != std::string::npos;
    peer agent(ring);
    co_await agent.connect(at.addr, port);
    co_await agent.send(fmt::format("{} {} HTTP/1.1\r\nHost: {}:{}\r\nConnection: close\r\n{}Content-Type: "
                                    "application/json\r\nContent-Length: {}\r\n\r\n{}",
                                    method, path, is_v6 ? "[" + at.addr + "]" : at.addr, port, fields,
                                    body.size(), body));
    reply made{.status = (co_await agent.read_head(answer_time)).status, .body = {}};
    while (made.body.size() < largest_list) {
        const std::string part = co_await agent.read_body();
        if (part.empty()) break;
        made.body += part;
    }
    co_return made;
}

std::string first_session(const std::string& text) {
    const json list = json::parse(text, nullptr, false);
    const json sessions = list.is_object() ? list.value("sessions", json()) : json();
    if (!sessions.is_array() || sessions.empty() || !sessions[0].is_object()) return {};
    const json name = sessions[0].value("name", json());
    return name.is_string() ? name.get<std::string>() : std::string();
}

task<> look_at(uring* ring, std::uint16_t port, std::shared_ptr<round> of, std::size_t which) {
    receiver made{.at = of->found[which].at};
    try {
        const reply list = co_await ask(*ring, made.at, port, "GET", "/v1/sessions", "", "");
        made.is = receiver::heeds::unknown;
        if (const std::string name = first_session(list.body); list.status == 200 && !name.empty()) {
            const reply tried = co_await ask(*ring, made.at, port, "POST",
                                             "/v1/sessions/" + percent_encoded(name) + "/settings",
                                             "X-Shrooms-Caged: doctor\r\n", "{}");
            if (tried.status == 403) made.is = receiver::heeds::yes;
            if (tried.status / 100 == 2) made.is = receiver::heeds::no;
        }
    } catch (const std::exception& error) {
        spdlog::debug("the agent of {} is not looked at: {}", made.at.name, error.what());
    }
    of->found[which] = std::move(made);
    if (--of->open == 0) of->ended.set();
}

} // namespace

std::string receiver::text() const {
    switch (is) {
    case heeds::yes: return fmt::format("at {}, heeds that an asker is in a cage", at.addr);
    case heeds::no:
        return fmt::format("at {}, ignores that an asker is in a cage and takes its tasks like any other's: "
                           "its agent is too old, update it",
                           at.addr);
    case heeds::unknown:
        return fmt::format("at {}, has no session, so it is not known whether it heeds that an asker is in a "
                           "cage",
                           at.addr);
    case heeds::unreachable: break;
    }
    return fmt::format("at {}, is not to be reached now", at.addr);
}

task<std::vector<receiver>> look_at_receivers(uring& ring, task_group& group, std::vector<machine> others,
                                              std::uint16_t port) {
    const auto all = std::make_shared<round>();
    for (machine& each : others) all->found.push_back({.at = std::move(each)});
    all->open = all->found.size();
    for (std::size_t i = 0; i < all->found.size(); ++i)
        group.spawn(look_at, &ring, port, all, std::size_t{i});
    if (all->open > 0) co_await all->ended.wait();
    co_return std::move(all->found);
}

task<std::vector<receiver>> task_board::look_at_receivers() {
    std::vector<machine> known = co_await machines();
    known.erase(known.begin()); // this one
    session_world& world = listed_.world();
    co_return co_await pinfold::look_at_receivers(world.ring, world.group, std::move(known), with_.port);
}

} // namespace pinfold
