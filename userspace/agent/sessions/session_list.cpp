#include "agent/sessions/session_list.hpp"

#include "agent/git_folder.hpp"
#include "agent/sessions/event_text.hpp"
#include "agent/sessions/place.hpp"
#include "base/file.hpp"

#include <spdlog/spdlog.h>

namespace pinfold {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void refuse_with(const std::string& text) {
    throw session_refusal(400, text);
}

// "~/x" is the owner's; what is relative is told from there, too, since an agent has no folder of its own.
fs::path expanded(const std::string& text, const fs::path& home) {
    if (text.empty()) refuse_with("dir: must name the directory that the session works in");
    fs::path path = text;
    if (text == "~" || text.starts_with("~/")) path = home / fs::path(text).lexically_relative("~");
    if (path.is_relative()) path = home / path;
    path = path.lexically_normal();
    if (!path.has_filename() && path.has_parent_path() && path != path.root_path()) path = path.parent_path();
    return path;
}

} // namespace

session_list::session_list(cages& owned, store& kept, session_world::settings settings)
    : world_{.ring = owned.ring(),
             .group = owned.group(),
             .owned = owned,
             .kept = kept,
             .with = std::move(settings)} {
    for (session_row& row : kept.sessions()) {
        auto one = std::make_shared<session>(world_, row);
        by_name_.emplace(row.name, one);
        one->resume_after_crash();
    }
}

void session_list::no_such_session(std::string_view name) {
    throw session_refusal(404, fmt::format("there is no session \"{}\" here", name));
}

std::shared_ptr<session> session_list::get(std::string_view name) const {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) no_such_session(name);
    return found->second;
}

std::shared_ptr<session> session_list::of_cage(std::string_view cage) const {
    for (const auto& [name, each] : by_name_) {
        if (each->row().cage == cage) return each;
    }
    return nullptr;
}

// ---- making ----

// The conversation goes on in the directory where it was held.
void session_list::take_conversation(create_request& from) const {
    if (from.resume.empty()) return;
    if (!is_session_name(from.resume)) refuse_with("resume: is no id of a conversation");
    if (from.harness != "claude")
        refuse_with("resume: a conversation is taken over by the harness that keeps it: claude");
    const fs::path transcript = find_transcript(world_.with, from.resume);
    if (transcript.empty())
        refuse_with(fmt::format("there is no conversation {} on this machine", from.resume));
    for (const auto& [name, each] : by_name_) {
        if (each->row().conversation == from.resume)
            refuse_with(fmt::format("the session \"{}\" continues that conversation already", name));
    }
    if (from.directory.empty()) from.directory = recorded_directory(transcript);
}

void session_list::refuse(const create_request& from) const {
    if (!is_session_name(from.name))
        refuse_with(
            "name: must be 1 to 64 letters, digits, '.', '_' and '-', and begin with a letter or a digit");
    const fs::path directory = from.directory;
    std::error_code error;
    if (fs::exists(fs::symlink_status(directory, error)) && !fs::is_directory(directory, error))
        refuse_with(fmt::format("{} is not a directory", directory.native()));
    if (harness::find(from.harness) == nullptr)
        refuse_with(fmt::format("there is no harness '{}'; GET /v1/harnesses lists them", from.harness));
    if (from.harness == "command" && (from.options.command.empty() || from.options.command.front().empty()))
        refuse_with("command: must name the program that each message starts");
    if (from.harness != "command" && !from.options.command.empty())
        refuse_with("command: belongs to the harness 'command'");
    if (by_name_.contains(from.name))
        refuse_with(fmt::format("there is a session \"{}\" already", from.name));
    if (!from.options.cage) return;
    if (!world_.owned.keeper().connected())
        refuse_with("this machine has no pinfold-keeper to cage sessions with: " +
                    world_.owned.keeper().trouble());
    if (from.options.cage->read_only_git) {
        if (!fs::is_directory(directory, error))
            refuse_with(fmt::format("read_only_git: {} is not there yet, and has no .git", from.directory));
        std::ignore = read_only_git(directory);
    }
    if (!from.options.cage->sealed) return;
    if (from.harness == "pi")
        refuse_with("a sealed session runs Claude Code only: pi would need your model keys");
    refuse_sealed_directory(world_.with, directory, 400);
    if (from.harness == "claude") refuse_without_token(world_.with, 400);
}

std::shared_ptr<session> session_list::create(create_request from, const std::string& by) {
    take_conversation(from);
    from.directory = expanded(from.directory, world_.with.home).native();
    refuse(from);
    std::error_code error;
    fs::create_directories(from.directory, error); // after everything else was found good
    if (error) refuse_with(fmt::format("cannot make {}: {}", from.directory, error.message()));
    if (from.options.cage && from.options.cage->sealed)
        from.options.outbox = outbox_of(world_.with, from.name).native();
    const session_settings settings{.auto_approve = from.auto_approve, .keep_running = from.keep_running};
    session_row row{.name = from.name,
                    .directory = fs::canonical(from.directory).native(),
                    .harness = from.harness,
                    .conversation = from.resume,
                    .mode = to_string(mode_of(from.options)),
                    .cage = make_cage_name(from.name),
                    .options = to_text(from.options),
                    .settings = to_text(settings)};
    std::vector<event_row> events;
    settings_change set;
    if (from.auto_approve) set.auto_approve = true;
    if (from.keep_running) set.keep_running = true;
    std::vector<std::pair<std::string, std::string>> told;
    if (from.options.cage) told.emplace_back("caged", event_data::caged(from.options.cage));
    for (std::string& data : setting_events(set)) told.emplace_back("setting", std::move(data));
    events.reserve(told.size());
    for (auto& [kind, data] : told)
        events.push_back({.seq = ++row.last_seq, .time = now_text(), .kind = kind, .by = by, .data = data});
    row.last_time = events.empty() ? now_text() : events.back().time;
    world_.kept.add(row, events);
    auto one = std::make_shared<session>(world_, row);
    by_name_.emplace(row.name, one);
    added_.pulse();
    return one;
}

void session_list::rename(const std::string& from, const std::string& to, const std::string& by) {
    const std::shared_ptr<session> one = get(from);
    if (!is_session_name(to))
        throw session_refusal(
            409,
            "name: must be 1 to 64 letters, digits, '.', '_' and '-', and begin with a letter or a digit");
    if (by_name_.contains(to))
        throw session_refusal(409, fmt::format("there is a session \"{}\" already", to));
    one->rename(to, by);
    auto moved = by_name_.extract(by_name_.find(from));
    moved.key() = to;
    by_name_.insert(std::move(moved));
}

task<> session_list::remove(std::string name) {
    const std::shared_ptr<session> one = get(name);
    co_await one->stop("deleted");
    const auto found = by_name_.find(one->row().name); // it may have another name by now
    if (found == by_name_.end() || found->second != one) co_return;
    world_.kept.remove(one->row().id);
    by_name_.erase(found);
    one->leave();
    const fs::path uploads = world_.with.state / "uploads";
    std::error_code error;
    if (!fs::is_directory(uploads / one->row().name, error)) co_return;
    const unique_fd folder = open_directory(uploads);
    remove_tree_at(folder.get(), one->row().name.c_str());
}

// ---- looking after them ----

task<> session_list::look_at(std::shared_ptr<session> one) {
    try {
        co_await one->look();
    } catch (const failure& error) {
        spdlog::warn("session \"{}\": {}", one->row().name, error.what());
    }
}

task<> session_list::run() {
    while (!world_.stopping.is_set()) {
        for (const auto& [name, each] : std::map(by_name_)) world_.group.spawn(&session_list::look_at, each);
        if (by_name_.empty()) co_await added_.wait(); // an agent without sessions is not woken
        if (co_await wait_within(world_.ring, world_.stopping, world_.with.look)) co_return;
    }
}

task<> session_list::stop_one(std::shared_ptr<session> one) {
    try {
        co_await one->stop("its agent stopped");
    } catch (const failure& error) {
        spdlog::warn("session \"{}\": {}", one->row().name, error.what());
    }
}

void session_list::stop() {
    world_.stopping.set();
    added_.pulse();
    for (const auto& [name, each] : std::map(by_name_)) {
        each->hang_up();
        if (each->runs()) world_.group.spawn(&session_list::stop_one, each);
    }
}

} // namespace pinfold
