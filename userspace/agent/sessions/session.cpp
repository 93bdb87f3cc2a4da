#include "agent/sessions/session.hpp"

#include "agent/git_folder.hpp"
#include "agent/sessions/event_text.hpp"
#include "agent/sessions/place.hpp"
#include "agent/sessions/run.hpp"

#include <csignal>
#include <random>
#include <spdlog/spdlog.h>

namespace pinfold {

namespace {

constexpr std::chrono::seconds end_grace{10}, kill_grace{30};

[[noreturn]] void conflict(const std::string& text) {
    throw session_refusal(409, text);
}

} // namespace

const char* to_string(session_state state) noexcept {
    switch (state) {
    case session_state::idle: return "idle";
    case session_state::working: return "working";
    case session_state::waiting: return "waiting";
    }
    return "?";
}

session::session(session_world& world, session_row row)
    : world_(world),
      row_(std::move(row)),
      options_(options_from(row_.options)),
      settings_(settings_from(row_.settings)),
      kind_(harness::find(row_.harness) != nullptr ? *harness::find(row_.harness) : *harness::all().front()) {
}

session::~session() = default;

session_state session::state() const noexcept {
    if (!pending_.empty()) return session_state::waiting;
    return working_ ? session_state::working : session_state::idle;
}

// ---- what is kept ----

session::draft session::begin() const {
    return {.change = {.session = row_}};
}

void session_draft::note(std::string kind, std::string by, std::string data) {
    session_row& row = change.session;
    event_row event{.seq = ++row.last_seq,
                    .time = now_text(),
                    .kind = std::move(kind),
                    .by = std::move(by),
                    .data = std::move(data)};
    row.last_time = event.time;
    blocks.push_back(std::make_shared<const std::string>(event_block(event, true)));
    change.events.push_back(std::move(event));
}

void session_draft::show(std::string_view text) {
    const event_row event{.seq = change.session.last_seq,
                          .time = now_text(),
                          .kind = "partial",
                          .by = "",
                          .data = event_data::partial(text)};
    blocks.push_back(std::make_shared<const std::string>(event_block(event, false)));
}

// Nobody is told of what is not kept.
void session::keep(draft&& done) {
    world_.kept.apply(done.change);
    trouble_.clear();
    row_ = std::move(done.change.session);
    const std::set<listener*> all = listeners_; // who is told may leave
    for (listener* each : all) {
        for (const auto& block : done.blocks) {
            if (listeners_.contains(each)) each->put(block);
        }
    }
}

// For what cannot be refused any more, such as a program's end: tried until the store takes it.
task<> session::keep_at_last(std::function<draft()> make) {
    for (;;) {
        try {
            keep(make());
            co_return;
        } catch (const store_failure& error) {
            if (trouble_.empty()) spdlog::error("session \"{}\": {}", row_.name, error.what());
            trouble_ = error.what();
            touch();
        }
        if (co_await wait_within(world_.ring, world_.stopping, std::chrono::seconds(1)) || gone_) co_return;
    }
}

// ---- messages ----

task<session::sent> session::send(std::string text, std::string id, std::string by) {
    const one_by_one::turn turn = co_await turn_.take();
    if (gone_) throw session_refusal(404, "the session was deleted");
    if (!id.empty() && world_.kept.knows_message(row_.id, id)) co_return sent::duplicate;
    if (run_ && run_->record->first->ended.is_set() && !kind_.one_turn()) co_await run_->finished.wait();
    const bool waits = state() != session_state::idle && !kind_.takes_more();
    if (!waits && !run_) co_await start();
    draft made = begin();
    made.note("message", by, event_data::message(text, id, waits));
    made.change.session.preview = cut(text, 200);
    made.change.messages.push_back({.id = id, .text = text, .by = by, .waiting = waits});
    keep(std::move(made));
    if (!waits && run_) deliver(*run_, text);
    co_return sent::taken;
}

void session::deliver(run& to, std::string_view text) {
    working_ = true;
    touch();
    used_ = std::chrono::steady_clock::now();
    give(to, to.talk->message(text), kind_.one_turn());
}

// What was sent while a harness worked that takes one message at a time.
task<> session::deliver_waiting() {
    const one_by_one::turn turn = co_await turn_.take();
    if (gone_ || world_.stopping.is_set()) co_return;
    for (const message_row& each : world_.kept.waiting(row_.id)) {
        if (state() != session_state::idle && !kind_.takes_more()) co_return;
        if (!run_) co_await start();
        draft made = begin();
        made.change.delivered.push_back(each.number);
        keep(std::move(made));
        if (run_) deliver(*run_, each.text);
    }
}

task<> session::go_on(self_pointer self) {
    try {
        co_await self->deliver_waiting();
    } catch (const failure& error) {
        self->not_before_ = std::chrono::steady_clock::now() + std::chrono::minutes(1);
        spdlog::warn("session \"{}\": what waits could not be given to it: {}", self->row_.name,
                     error.what());
    }
}

task<> session::interrupt() {
    if (!run_ || state() == session_state::idle) conflict("nothing is running that could be interrupted");
    const run_pointer what = run_;
    if (auto bytes = what->talk->interrupt())
        give(*what, *bytes);
    else
        co_await what->record->first->send_signal(SIGINT);
}

// ---- permissions and questions ----

bool session::answers_itself(const harness::asks& what) const {
    return settings_.auto_approve && !what.is_question;
}

void session::answer(const std::string& prompt, const harness::answer& what, const std::string& by) {
    const auto found = pending_.find(prompt);
    if (found == pending_.end() || !run_)
        conflict("there is no such prompt: it was answered already, or its program has ended");
    if (found->second.is_question && what.allow && what.answers.empty())
        conflict("this is a question: 'answers' must say what is answered to it");
    auto bytes = run_->talk->reply(found->second, what);
    if (!bytes) conflict("this is no answer to what was asked");
    draft made = begin();
    made.note("answer", by, event_data::answer(prompt, what));
    keep(std::move(made));
    pending_.erase(prompt);
    touch();
    used_ = std::chrono::steady_clock::now();
    give(*run_, *bytes);
    changed.pulse();
}

// ---- what the owner sets ----

void session::change(const settings_change& what, const std::string& by) {
    session_settings next = settings_;
    if (what.meshes) next.meshes = *what.meshes;
    if (what.accept_files_from) next.accept_files_from = *what.accept_files_from;
    if (what.accept_caged_from) next.accept_caged_from = *what.accept_caged_from;
    if (what.accept_caged) next.accept_caged = what.accept_caged;
    if (what.auto_approve) next.auto_approve = *what.auto_approve;
    if (what.starred) next.starred = *what.starred;
    if (what.keep_running) next.keep_running = *what.keep_running;
    draft made = begin();
    for (std::string& data : setting_events(what)) made.note("setting", by, std::move(data));
    made.change.session.settings = to_text(next);
    keep(std::move(made));
    settings_ = std::move(next);
    not_before_ = {};
    const std::map<std::string, harness::asks> waiting = pending_;
    for (const auto& [id, each] : waiting) {
        if (answers_itself(each)) answer(id, {.allow = true}, by);
    }
}

void session::rename(const std::string& to, const std::string& by) {
    draft made = begin();
    made.note("renamed", by, event_data::renamed(row_.name, to));
    made.change.session.name = to;
    keep(std::move(made));
}

void session::record(std::string kind, const std::string& by, std::string data) {
    draft made = begin();
    made.note(std::move(kind), by, std::move(data));
    keep(std::move(made));
}

void session::count(std::uint64_t requests, std::uint64_t tokens_in, std::uint64_t tokens_out) {
    draft made = begin();
    made.change.session.requests += requests;
    made.change.session.tokens_in += tokens_in;
    made.change.session.tokens_out += tokens_out;
    keep(std::move(made));
}

// ---- starting over, moving ----

task<> session::stop(std::string reason) {
    const one_by_one::turn turn = co_await turn_.take();
    co_await end(std::move(reason));
}

task<> session::end(std::string reason) {
    const run_pointer what = run_;
    if (!what) co_return;
    what->reason = std::move(reason);
    if (kind_.one_turn()) co_await what->record->first->send_signal(SIGTERM);
    give(*what, "", true);
    if (what->finished.is_set() || co_await wait_within(world_.ring, what->finished, end_grace)) co_return;
    co_await what->record->first->kill();
    if (what->finished.is_set() || co_await wait_within(world_.ring, what->finished, kill_grace)) co_return;
    conflict("its program does not end; 'pinfold ls' shows it");
}

task<> session::restart(std::string by) {
    const one_by_one::turn turn = co_await turn_.take();
    co_await end("restarted");
    draft made = begin();
    made.note("restarted", by, "{}");
    keep(std::move(made));
    not_before_ = {};
    quick_ends_ = 0;
    if (!kind_.one_turn()) co_await start();
}

void session::refuse_move(const std::optional<cage_options>& to) const {
    if (state() != session_state::idle)
        conflict(fmt::format("the session is {}: move it once it is idle", to_string(state())));
    if (!to) return;
    if (!world_.owned.keeper().connected())
        conflict("this machine has no pinfold-keeper to cage sessions with: " +
                 world_.owned.keeper().trouble());
    if (to->read_only_git) std::ignore = read_only_git(row_.directory);
    if (!to->sealed) return;
    if (row_.harness == "pi")
        conflict("a sealed session runs Claude Code only: pi would need your model keys");
    refuse_sealed_directory(world_.with, row_.directory, 409);
    if (row_.harness == "claude") refuse_without_token(world_.with, 409);
}

task<> session::move(std::optional<cage_options> to, std::string by) {
    const one_by_one::turn turn = co_await turn_.take();
    refuse_move(to);
    co_await end("moved");
    const run_mode before = mode_of(options_);
    if (before == run_mode::sealed && row_.harness == "claude") carry_transcript_out(world_.with, row_);
    const std::string old_cage = row_.cage;
    session_options next = options_;
    next.cage = std::move(to);
    next.outbox = next.cage && next.cage->sealed ? outbox_of(world_.with, row_.name).native() : "";
    draft made = begin();
    made.change.session.options = to_text(next);
    made.change.session.mode = to_string(mode_of(next));
    made.change.session.cage = make_cage_name(row_.name);
    made.note("caged", by, event_data::caged(next.cage));
    keep(std::move(made));
    options_ = std::move(next);
    if (before != run_mode::uncaged) world_.group.spawn(&session::remove_cage, &world_, old_cage);
}

task<> session::remake_cage(std::string reason) {
    const one_by_one::turn turn = co_await turn_.take();
    co_await end(std::move(reason));
    const std::string old_cage = row_.cage;
    draft made = begin();
    made.change.session.cage = make_cage_name(row_.name);
    keep(std::move(made));
    world_.group.spawn(&session::remove_cage, &world_, old_cage);
}

task<> session::remove_cage(session_world* world, std::string name) {
    try {
        co_await world->owned.remove(name);
    } catch (const unknown_cage&) {
        spdlog::debug("cage {} was never made", name);
    } catch (const failure& error) {
        spdlog::warn("cage {} is left: {}; 'pinfold rm {}' removes it", name, error.what(), name);
    }
    if (world->with.close_door) world->with.close_door(name);
    remove_private_home(world->with, name);
}

task<> session::limit(limits_request to, std::string by) {
    if (!options_.cage) conflict("the session is not in a cage, so it has no limits");
    limits_spec limits = world_.with.limits;
    apply_limits(to.memory, to.cpus, limits);
    const one_by_one::turn turn = co_await turn_.take();
    if (run_) {
        const auto set = [limits](limits_spec& into) { into = limits; };
        std::ignore = co_await world_.owned.change_limits(row_.cage, set);
    }
    session_options next = options_;
    next.memory = to.memory;
    next.cpus = to.cpus;
    draft made = begin();
    made.change.session.options = to_text(next);
    made.note("setting", by, event_data::limits(to.memory, to.cpus));
    keep(std::move(made));
    options_ = std::move(next);
}

void session::hang_up() {
    const std::set<listener*> all = listeners_;
    for (listener* each : all) each->end();
    changed.pulse();
}

void session::leave() {
    gone_ = true;
    hang_up();
    if (mode_of(options_) != run_mode::uncaged) world_.group.spawn(&session::remove_cage, &world_, row_.cage);
}

std::string make_cage_name(const std::string& of) {
    std::random_device random;
    std::string name;
    for (const char c : of.substr(0, 50)) name += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    return fmt::format("{}-{:06x}", name, random() & 0xffffffU);
}

} // namespace pinfold
