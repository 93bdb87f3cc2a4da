// Sessions as a whole: listed, made, set, moved, deleted.
#include "agent/api/session_routes.hpp"
#include "agent/api/task_routes.hpp"
#include "agent/report/reports.hpp"
#include "agent/sessions/event_text.hpp"
#include "agent/sessions/place.hpp"
#include "agent/sessions/shared_folder.hpp"
#include "agent/tasks/task_board.hpp"
#include "base/beneath.hpp"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace pinfold {

using nlohmann::json;

namespace {

constexpr std::uint64_t longest_tail = 20;

[[noreturn]] void refuse(const problem& what) {
    throw bad_request(what.text());
}

task<std::vector<mesh>> known_meshes(services& with) {
    if (with.tasks != nullptr) co_return co_await with.tasks->meshes();
    co_return std::vector<mesh>();
}

task<> refuse_unknown_meshes(services& with, const settings_change& change) {
    if (!change.meshes || change.meshes->empty()) co_return;
    const std::vector<mesh> known = co_await known_meshes(with);
    for (const std::string& each : *change.meshes)
        if (std::ranges::find(known, each, &mesh::label) == known.end())
            throw bad_request("meshes: this machine is on none that is called " + plain_line(each));
}

json tail_of(services& with, const session& one, std::size_t count) {
    json list = json::array();
    store& kept = with.listed->world().kept;
    for (const event_row& each : kept.events(one.row().id, kept.tail_begins(one.row().id, count), count))
        list.push_back(json::parse(event_json(each), nullptr, false));
    return list;
}

http::response shown(services& with, const session& one, int status = 200) {
    json whole = to_json(one, with.listed->world().with);
    shown_tasks(with, one).add(one, whole);
    return answer_json(whole, status);
}

} // namespace

task<std::optional<http::response>> list_harnesses(services& with, exchange&) {
    const session_world::settings& set = with.listed->world().with;
    json list = json::array();
    for (const harness::kind* each : harness::all()) {
        const harness::capabilities can = each->can();
        if (std::string_view(each->name()) == "pi" && set.pi.empty()) continue;
        list.push_back({{"name", each->name()},
                        {"title", each->title()},
                        {"caps", {{"approve", can.approve}, {"takeover", can.takeover}}}});
    }
    const bool available = with.owned.keeper().connected();
    json cage{{"available", available}, {"ready", available}};
    if (available) {
        cage["image"] = set.image;
        cage["images"] = json::array({set.image});
        cage["shared"] = true;
        cage["shared_in"] = "/shared";
        cage["shared_root"] = (set.state / "shared").native();
        if (std::filesystem::exists("/nix/store")) cage["nix"] = true;
        if (has_sealed_token(set)) cage["sealed"] = true;
    } else {
        cage["error"] = with.owned.keeper().trouble();
    }
    co_return answer_json({{"harnesses", list}, {"cage", cage}});
}

// With a thousand sessions it is half a megabyte, and apps ask for it again and again.
task<std::optional<http::response>> list_sessions(services& with, exchange& asked) {
    const std::uint64_t tail = query_number(asked, "tail", longest_tail, 0);
    const session_world& world = with.listed->world();
    const std::int64_t now = std::time(nullptr);
    kept_answer fresh{.rows = world.kept.file().changes(), .passing = world.passing};
    kept_answer& kept = with.session_list_answer;
    const bool whole_list = asked.shows.is_here;
    if (whole_list && tail == 0 && kept.text && kept.rows == fresh.rows && kept.passing == fresh.passing &&
        now < kept.until)
        co_return http::response{.kept = kept.text};
    const shown_tasks tasks(with);
    json list = json::array();
    for (const auto& [name, each] : with.listed->all()) {
        if (!asked.shows.sees(each->settings())) continue;
        json one = to_json(*each, world.with);
        tasks.add(*each, one);
        if (tail > 0) one["tail"] = tail_of(with, *each, tail);
        if (one.contains("limited") && each->model().limited.until_seconds > 0)
            fresh.until = std::min(fresh.until, each->model().limited.until_seconds);
        list.push_back(std::move(one));
    }
    http::response whole = answer_json(
        {{"sessions", std::move(list)}, {"limits", json::array()}, {"credits", json::array()}});
    if (tail > 0 || !whole_list) co_return whole;
    fresh.text = std::make_shared<const std::string>(std::move(whole.body));
    kept = fresh;
    co_return http::response{.kept = std::move(fresh.text)};
}

task<std::optional<http::response>> create_session(services& with, exchange& asked) {
    auto request = read_create(asked.request.body);
    if (!request) refuse(request.error());
    const std::shared_ptr<session> made = with.listed->create(std::move(*request), asked.by);
    co_return shown(with, *made, 201);
}

task<std::optional<http::response>> get_session(services& with, exchange& asked) {
    co_return shown(with, *session_of(with, asked));
}

task<std::optional<http::response>> delete_session(services& with, exchange& asked) {
    const std::shared_ptr<session> one = session_of(with, asked);
    if (with.tasks != nullptr) with.tasks->worker_leaves(one);
    const std::int64_t number = one->row().id;
    co_await with.listed->remove(asked.name);
    if (with.reports != nullptr) with.reports->forget(number);
    co_return http::response{.status = 204};
}

task<std::optional<http::response>> change_session(services& with, exchange& asked) {
    const std::shared_ptr<session> one = session_of(with, asked);
    const auto change = read_settings(asked.request.body);
    if (!change) refuse(change.error());
    co_await refuse_unknown_meshes(with, *change);
    const std::string shared = shared_folder_name(one->settings().meshes);
    one->change(*change, asked.by);
    const auto& cage = one->options().cage;
    if (cage && cage->shared && shared_folder_name(one->settings().meshes) != shared)
        co_await one->remake_cage("it is on other meshes now, which have another shared folder");
    if (with.tasks != nullptr) {
        if (const auto& from = change->ignore_file_request)
            with.tasks->kept().remove_request(one->row().id, *from);
        with.tasks->reconsider(one);
    }
    co_return shown(with, *one);
}

task<std::optional<http::response>> rename_session(services& with, exchange& asked) {
    const std::shared_ptr<session> one = session_of(with, asked);
    const auto name = read_rename(asked.request.body);
    if (!name) refuse(name.error());
    with.listed->rename(asked.name, *name, asked.by);
    co_return shown(with, *one);
}

task<std::optional<http::response>> restart_session(services& with, exchange& asked) {
    co_await session_of(with, asked)->restart(asked.by);
    co_return http::response{.status = 204};
}

task<std::optional<http::response>> move_session(services& with, exchange& asked) {
    const std::shared_ptr<session> one = session_of(with, asked);
    const auto to = read_move(asked.request.body);
    if (!to) refuse(to.error());
    co_await one->move(*to, asked.by);
    co_return shown(with, *one);
}

task<std::optional<http::response>> limit_session(services& with, exchange& asked) {
    const std::shared_ptr<session> one = session_of(with, asked);
    const auto to = read_cage_limits(asked.request.body);
    if (!to) refuse(to.error());
    co_await one->limit(*to, asked.by);
    co_return shown(with, *one);
}

task<std::optional<http::response>> list_meshes(services& with, exchange&) {
    json labels = json::array();
    for (const mesh& each : co_await known_meshes(with)) labels.push_back(each.label);
    co_return answer_json({{"meshes", std::move(labels)}});
}

task<std::optional<http::response>> list_peers(services& with, exchange&) {
    json peers = json::array();
    for (const mesh& each : co_await known_meshes(with))
        for (const machine& one : each.peers)
            peers.push_back({{"name", one.name}, {"mesh", each.label}, {"overlay", one.addr}});
    co_return answer_json({{"peers", std::move(peers)}});
}

} // namespace pinfold
