// A session's program: how it is started, what is read from it and written to it, and its end.
#include "agent/sessions/event_text.hpp"
#include "agent/sessions/place.hpp"
#include "agent/sessions/run.hpp"

#include <algorithm>
#include <array>
#include <poll.h>
#include <spdlog/spdlog.h>

namespace pinfold {

namespace {

using clock_type = std::chrono::steady_clock;

constexpr std::size_t read_size = std::size_t{64} * 1024;
constexpr std::size_t kept_errors = 2048; // bytes of its standard error that explain an end
constexpr std::chrono::seconds drain_time{5}, quick{60};

std::string last_line(const std::string& text) {
    const std::size_t end = text.find_last_not_of("\r\n ");
    if (end == std::string::npos) return {};
    const std::size_t begin = text.find_last_of('\n', end);
    return text.substr(begin == std::string::npos ? 0 : begin + 1,
                       end - (begin == std::string::npos ? 0 : begin + 1) + 1);
}

} // namespace

// ---- starting ----

run_request session::make_request() const {
    const placed_session what{.row = row_, .options = options_, .settings = settings_};
    const session_world::settings& with = world_.with;
    const run_mode mode = mode_of(options_);
    if (mode == run_mode::sealed) refuse_sealed_directory(with, row_.directory, 409);
    harness::start how{.session = row_.name,
                       .machine = with.machine,
                       .conversation = row_.conversation,
                       .command = options_.command};
    how.skip_permissions = settings_.auto_approve && (mode != run_mode::uncaged || ::geteuid() != 0);
    if (row_.harness != "command") how.program = find_harness(with, row_.harness).native();
    if (mode != run_mode::uncaged && !with.mcp.empty()) how.tools = mcp_program;
    how.read_only_git = options_.cage && options_.cage->read_only_git;
    if (row_.harness == "pi") how.more = with.pi_arguments;
    run_request request;
    request.name = row_.cage;
    request.mode = mode;
    request.directory = row_.directory;
    request.image = options_.cage && !options_.cage->image.empty() ? options_.cage->image : with.image;
    request.limits = with.limits;
    apply_limits(options_.memory, options_.cpus, request.limits);
    request.command.argv = kind_.arguments(how);
    request.command.environment = make_session_environment(with, what);
    if (mode != run_mode::uncaged && with.open_door) with.open_door(shared_from_this());
    request.binds = make_session_binds(with, what);
    request.read_only_git = how.read_only_git;
    request.keep_files = mode != run_mode::uncaged;
    return request;
}

task<> session::start() {
    std::string why;
    std::shared_ptr<cage_record> record;
    try {
        if (world_.with.watch != nullptr && mode_of(options_) != run_mode::uncaged)
            co_await world_.with.watch->before_run(*this);
        record = co_await world_.owned.run(make_request());
    } catch (const keeper_unreachable& error) {
        why = std::string("this session is caged, and this machine has no pinfold-keeper to cage it with: ") +
              error.what();
    } catch (const std::exception& error) {
        why = error.what();
    }
    if (!why.empty()) {
        quick_ends_ = std::min(quick_ends_ + 1, 8U); // what is kept running is not tried again at once
        not_before_ = clock_type::now() + std::chrono::seconds(1U << quick_ends_);
        throw session_refusal(409, why);
    }
    run_ = std::make_shared<run>(record, kind_.converse());
    touch();
    started_ = used_ = clock_type::now();
    // Were the agent killed now, it would know at its next start that a program of this session has gone with it.
    draft made = begin();
    made.change.session.running = true;
    std::exception_ptr error;
    try {
        keep(std::move(made));
    } catch (const store_failure&) {
        error = std::current_exception();
    }
    const self_pointer self = shared_from_this();
    const run_pointer what = run_;
    if (error) what->reason = "nothing can be kept";
    world_.group.spawn(&session::read_output, self, what);
    world_.group.spawn(&session::read_errors, self, what);
    world_.group.spawn(&session::write_input, self, what);
    world_.group.spawn(&session::watch, self, what);
    if (error) {
        co_await record->first->kill();
        std::rethrow_exception(error);
    }
    give(*what, what->talk->opening());
}

// ---- to the program ----

void session::give(run& to, const std::string& bytes, bool last) {
    to.outgoing += bytes;
    to.close_input = to.close_input || last;
    to.outgoing_changed.set();
}

task<> session::write_input(self_pointer self, run_pointer what) {
    ++what->pumps;
    unique_fd& to = what->record->first->streams.input;
    while (!what->ending) {
        if (what->outgoing.empty()) {
            if (what->close_input) break;
            what->outgoing_changed.reset();
            co_await what->outgoing_changed.wait();
            continue;
        }
        const ssize_t sent = ::write(to.get(), what->outgoing.data(), what->outgoing.size());
        if (sent > 0)
            what->outgoing.erase(0, static_cast<std::size_t>(sent));
        else if (errno == EAGAIN)
            std::ignore = co_await poll_once(self->world_.ring, to.get(), POLLOUT);
        else if (errno != EINTR)
            break; // it reads no more; its end is told by watch()
    }
    to.reset();
    --what->pumps;
    what->pumps_done.pulse();
}

// ---- from the program ----

task<> session::read_output(self_pointer self, run_pointer what) {
    ++what->pumps;
    const int from = what->record->first->streams.output.get();
    std::vector<char> buffer(read_size);
    std::vector<harness::news> list;
    const auto understand = [&](std::string_view line) {
        for (harness::news& each : what->talk->take(line)) list.push_back(std::move(each));
    };
    for (;;) {
        std::ignore = co_await poll_once(self->world_.ring, from,
                                         POLLIN); // also when there is more: others have turns
        const ssize_t got = ::read(from, buffer.data(), buffer.size());
        if (got < 0 && (errno == EAGAIN || errno == EINTR) && !what->ending) continue;
        if (got <= 0) break;
        what->lines.put({buffer.data(), static_cast<std::size_t>(got)}, understand);
        if (!list.empty()) co_await self->take(what, std::exchange(list, {}));
    }
    what->lines.end(understand);
    if (!list.empty()) co_await self->take(what, std::exchange(list, {}));
    what->output_ended = true;
    what->output_done.set();
    what->record->first->news.pulse();
    --what->pumps;
    what->pumps_done.pulse();
}

task<> session::read_errors(self_pointer self, run_pointer what) {
    ++what->pumps;
    const int from = what->record->first->streams.errors.get();
    std::array<char, 4096> buffer{};
    for (;;) {
        std::ignore = co_await poll_once(self->world_.ring, from, POLLIN);
        const ssize_t got = ::read(from, buffer.data(), buffer.size());
        if (got < 0 && (errno == EAGAIN || errno == EINTR) && !what->ending) continue;
        if (got <= 0) break;
        what->errors.append(buffer.data(), static_cast<std::size_t>(got));
        if (what->errors.size() > kept_errors) what->errors.erase(0, what->errors.size() - kept_errors);
    }
    --what->pumps;
    what->pumps_done.pulse();
}

// Not read on before it is kept: a full disk stops the harness, and loses nothing.
task<> session::take(run_pointer from, std::vector<harness::news> list) {
    for (;;) {
        try {
            absorb(*from, list);
            co_return;
        } catch (const store_failure& error) {
            if (trouble_.empty()) spdlog::error("session \"{}\": {}", row_.name, error.what());
            trouble_ = error.what();
            touch();
        }
        if (co_await wait_within(world_.ring, world_.stopping, std::chrono::seconds(1)) || gone_) co_return;
    }
}

void session::absorb(run& from, const std::vector<harness::news>& list) {
    draft made = begin();
    session_row& row = made.change.session;
    bool partial_only = true;
    for (const harness::news& each : list) {
        if (const auto* one = std::get_if<harness::partial>(&each)) {
            made.show(one->text);
            continue;
        }
        partial_only = false;
        if (const auto* said = std::get_if<harness::said>(&each)) {
            made.note("claude", "", said->json);
            if (!said->text.empty()) row.preview = cut(said->text, 200);
        } else if (const auto* known = std::get_if<harness::conversation>(&each)) {
            row.conversation = known->id;
            if (!known->model.empty()) row.model = known->model;
        } else if (const auto* ended = std::get_if<harness::turn_ended>(&each)) {
            ++row.turns;
            if (ended->context_used > 0) row.context_used = ended->context_used;
            if (ended->context_window > 0) row.context_window = ended->context_window;
        }
    }
    if (partial_only) {
        const std::set<listener*> all = listeners_;
        for (listener* each : all) {
            for (const auto& block : made.blocks) {
                if (listeners_.contains(each)) each->put(block);
            }
        }
        return;
    }
    keep(std::move(made));
    for (const harness::news& each : list) follow(from, each);
    touch();
    changed.pulse();
}

// What the news mean for the state, once they are kept.
void session::follow(run& from, const harness::news& each) {
    used_ = clock_type::now();
    if (std::holds_alternative<harness::turn_began>(each)) {
        working_ = true;
    } else if (std::holds_alternative<harness::turn_ended>(each) && !kind_.one_turn()) {
        working_ = false;
        pending_.clear();
        quick_ends_ = 0;
        world_.group.spawn(&session::go_on, shared_from_this());
    } else if (const auto* asked = std::get_if<harness::asks>(&each)) {
        if (asked->id.empty()) return;
        const auto yes = answers_itself(*asked) ? from.talk->reply(*asked, {.allow = true}) : std::nullopt;
        if (yes)
            give(from, *yes);
        else
            pending_.insert_or_assign(asked->id, *asked);
    } else if (const auto* withdrawn = std::get_if<harness::asks_no_more>(&each)) {
        pending_.erase(withdrawn->id);
    }
    follow_provider(each);
}

// In a cage its gateway knows better, and says so itself: what the harness says there is for whoever reads its lines.
void session::follow_provider(const harness::news& each) {
    if (const auto* limit = std::get_if<harness::limit_reached>(&each)) {
        model_.limited = {.reason = limit->reason,
                          .until = limit->until_seconds > 0 ? moment_text(limit->until_seconds) : "",
                          .until_seconds = limit->until_seconds};
        return;
    }
    if (mode_of(options_) != run_mode::uncaged) return;
    if (const auto* failed = std::get_if<harness::provider_failed>(&each))
        hear({.outcome = provider_outcome::refused, .status = failed->status, .text = failed->text});
    const auto* ended = std::get_if<harness::turn_ended>(&each);
    if (ended != nullptr && !ended->failed) hear({.outcome = provider_outcome::answered});
}

// ---- its end ----

task<> session::watch(self_pointer self, run_pointer what) {
    const std::shared_ptr<program> one = what->record->first;
    // Without its keeper nobody tells a program's end; that it says nothing more does.
    while (!one->ended.is_set() && !(one->orphaned && what->output_ended)) co_await one->news.wait();
    // A child that it left may hold its output open for ever.
    if (!what->output_done.is_set())
        std::ignore = co_await wait_within(self->world_.ring, what->output_done, drain_time);
    what->ending = true;
    what->outgoing_changed.set();
    for (const unique_fd* each : {&one->streams.output, &one->streams.errors, &one->streams.input}) {
        if (*each) self->world_.ring.cancel(each->get());
    }
    while (what->pumps > 0) co_await what->pumps_done.wait();
    co_await self->finish(what);
}

task<> session::finish(run_pointer what) {
    world_.owned.forget(*what->record);
    const program_end& end = what->record->first->end;
    const bool failed = end.status != 0 && what->reason.empty();
    std::string reason = !what->reason.empty() ? what->reason : "finished";
    if (failed) {
        reason = end.memory_kill ? "its memory limit ended it; 'limits' raises it"
                                 : fmt::format("its program ended with status {}", end.status);
        const std::string said = last_line(what->errors);
        if (!said.empty()) reason += ": " + said;
    }
    if (what->lines.dropped() > 0)
        reason += fmt::format(" ({} lines were longer than 64 MiB and are not kept)", what->lines.dropped());
    const bool one_turn = kind_.one_turn();
    co_await keep_at_last([&] {
        draft made = begin();
        if (one_turn) {
            ++made.change.session.turns;
            made.note("claude", "", event_data::result(failed, reason));
        }
        made.note("stopped", "", event_data::stopped(reason));
        made.change.session.running = false;
        return made;
    });
    const auto now = clock_type::now();
    quick_ends_ = failed && now - started_ < quick ? std::min(quick_ends_ + 1, 8U) : 0;
    not_before_ = quick_ends_ > 1 ? now + std::chrono::seconds(1U << quick_ends_) : clock_type::time_point();
    if (run_ == what) run_.reset();
    working_ = false;
    pending_.clear();
    touch();
    used_ = now;
    look_after(); // before anybody hears of the end: who deletes the session waits for that
    what->finished.set();
    changed.pulse();
    if (!gone_ && !world_.stopping.is_set() && not_before_ <= now)
        world_.group.spawn(&session::go_on, shared_from_this());
}

// ---- every few seconds ----

task<> session::look() {
    const auto now = clock_type::now();
    if (gone_ || world_.stopping.is_set() || now < not_before_) co_return;
    if (run_ && state() == session_state::idle && !settings_.keep_running && !kind_.one_turn() &&
        now - used_ >= world_.with.idle) {
        co_await stop("idle");
        co_return;
    }
    if (!run_ && !world_.kept.waiting(row_.id).empty()) co_await deliver_waiting();
    if (!run_ && settings_.keep_running && !kind_.one_turn()) {
        const one_by_one::turn turn = co_await turn_.take();
        if (!run_ && !gone_) co_await start();
    }
}

void session::look_after() {
    if (!gone_ && world_.with.watch != nullptr && mode_of(options_) != run_mode::uncaged)
        world_.with.watch->after_run(shared_from_this());
}

void session::resume_after_crash() {
    if (row_.running) {
        look_after();
        draft made = begin();
        made.note("stopped", "", event_data::stopped("its agent ended, and with it its program"));
        made.change.session.running = false;
        keep(std::move(made));
    }
}

} // namespace pinfold
