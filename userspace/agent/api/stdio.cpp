#include "agent/api/stdio.hpp"

#include "agent/api/answers.hpp"

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace pinfold {

namespace {

constexpr std::size_t credit_step = 64 * 1024; // bytes written before the client may send as many more
constexpr std::chrono::seconds hang_up_grace{5};
constexpr std::chrono::seconds kill_grace{10};
constexpr std::chrono::seconds drain_grace{2};  // for what children of the program still hold open
constexpr std::chrono::seconds orphan_grace{5}; // for a keeper that comes back

std::size_t readable_bytes(const unique_fd& fd) {
    int count = 0;
    return ::ioctl(fd.get(), FIONREAD, &count) == 0 && count > 0 ? static_cast<std::size_t>(count) : 0;
}

} // namespace

stdio_session::stdio_session(uring& ring, task_group& group, buffer_pool& buffers, int client,
                             std::string early)
    : ring_(ring), group_(group), buffers_(buffers), client_(client), early_(std::move(early)) {}

stdio_session::~stdio_session() = default;

template <typename F, typename... Args>
void stdio_session::begin(F function, Args... args) {
    ++running_;
    group_.spawn(
        [](self_pointer self, F run, Args... with) -> task<> {
            std::exception_ptr error;
            try {
                co_await run(self, with...);
            } catch (...) {
                error = std::current_exception();
            }
            if (error) self->hang_up();
            if (--self->running_ == 0) self->all_done_.set();
            if (error) std::rethrow_exception(error);
        },
        shared_from_this(), function, args...);
}

void stdio_session::poke() {
    changed_.pulse();
}

void stdio_session::hang_up() {
    if (std::exchange(gone_, true)) return;
    ::shutdown(client_, SHUT_RDWR); // a send that waits for this client fails now
    poke();
}

void stdio_session::stop() {
    stopping_ = true;
    poke();
}

// ---- the whole ----

task<> stdio_session::tell(pinfold_frame type, nlohmann::json what) {
    const std::string text = to_line(what);
    buffer_pool::lease buffer = buffers_.take();
    const std::size_t size = std::min(text.size(), buffer.payload().size());
    std::ranges::copy(std::as_bytes(std::span(text)).first(size), buffer.payload().begin());
    co_await send_frame(type, buffer.frame().first(PINFOLD_FRAME_HEADER + size));
}

task<> stdio_session::carry(std::shared_ptr<program> what) {
    program_ = std::move(what);
    outputs_ = program_->streams.errors ? 2 : 1;
    begin(&stdio_session::read_client);
    begin(&stdio_session::write_input);
    begin(&stdio_session::watch_end);
    begin(&stdio_session::pump, stream::output);
    if (program_->streams.errors) begin(&stdio_session::pump, stream::errors);
    co_await until_ended();
    co_await until_delivered();
}

task<> stdio_session::until_ended() {
    const auto nobody_will_tell = [&] { return outputs_ == 0 && program_->orphaned; };
    while (!program_->ended.is_set() && !gone_ && !stopping_ && !nobody_will_tell()) co_await changed_.wait();
    if (program_->ended.is_set()) co_return;
    if (gone_ || stopping_) {
        co_await end_program();
    } else if (!co_await wait_within(ring_, program_->ended, orphan_grace)) {
        program_->finish({.status = 125, .keeper_lost = true});
    }
}

// Of one whose keeper is gone nobody can tell the end: it is asked, and not waited for as long.
task<> stdio_session::end_program() {
    co_await program_->send_signal(SIGHUP);
    const bool short_wait = stopping_ || program_->orphaned;
    if (co_await wait_within(ring_, program_->ended, short_wait ? drain_grace : hang_up_grace)) co_return;
    co_await program_->kill();
    if (!co_await wait_within(ring_, program_->ended, program_->orphaned ? drain_grace : kill_grace))
        program_->finish({.status = 128 + SIGKILL, .keeper_lost = true});
}

// What was written is delivered, however slow the client. What a child that was left behind writes later is not.
task<> stdio_session::until_delivered() {
    if (outputs_ == 0 || co_await wait_within(ring_, delivered_, drain_grace)) co_return;
    last_ = {readable_bytes(program_->streams.output), readable_bytes(program_->streams.errors)};
    last_call_ = true;
    ring_.cancel(program_->streams.output.get());
    if (program_->streams.errors) ring_.cancel(program_->streams.errors.get());
    co_await delivered_.wait();
}

task<> stdio_session::close() {
    closing_ = true;
    ring_.cancel(client_);
    if (program_ && program_->streams.input) ring_.cancel(program_->streams.input.get());
    input_changed_.set();
    if (program_) program_->news.pulse();
    poke();
    while (running_ > 0) {
        all_done_.reset();
        co_await all_done_.wait();
    }
}

task<> stdio_session::watch_end(self_pointer self) {
    const std::shared_ptr<program> what = self->program_;
    while (!what->ended.is_set() && !self->closing_) {
        co_await what->news.wait();
        self->poke();
    }
}

// ---- from the program to the client ----

std::size_t stdio_session::allowed(stream which, std::size_t room) const {
    return last_call_ ? std::min(room, last_[static_cast<std::size_t>(which)]) : room;
}

task<> stdio_session::pump(self_pointer self, stream which) {
    const bool output = which == stream::output;
    const unique_fd& from = output ? self->program_->streams.output : self->program_->streams.errors;
    while (true) {
        ssize_t got = 0;
        int error = 0;
        {
            buffer_pool::lease buffer = self->buffers_.take();
            const std::size_t room = self->allowed(which, buffer.payload().size());
            got = room == 0 ? 0 : ::read(from.get(), buffer.payload().data(), room);
            error = errno;
            if (got > 0) {
                const auto size = static_cast<std::size_t>(got);
                if (self->last_call_) self->last_[static_cast<std::size_t>(which)] -= size;
                const pinfold_frame type = output ? PINFOLD_FRAME_STDOUT : PINFOLD_FRAME_STDERR;
                if (co_await self->send_frame(type, buffer.frame().first(PINFOLD_FRAME_HEADER + size)))
                    continue;
            }
        }
        if (got == 0 || (got < 0 && error != EAGAIN && error != EINTR)) break; // a terminal ends with EIO
        if (self->last_call_) {
            if (got < 0) break;
            continue;
        }
        // Nothing there, or nobody who takes it: what comes for a client that is gone is read and dropped.
        std::ignore = co_await poll_once(self->ring_, from.get(), POLLIN);
    }
    if (--self->outputs_ == 0) self->delivered_.set();
    self->poke();
}

// False when the client is gone.
task<bool> stdio_session::send_frame(pinfold_frame type, std::span<std::byte> frame) {
    if (gone_) co_return false;
    pinfold_put_header(reinterpret_cast<unsigned char*>(frame.data()), static_cast<std::uint32_t>(type),
                       static_cast<std::uint32_t>(frame.size() - PINFOLD_FRAME_HEADER));
    const one_by_one::turn turn = co_await sending_.take();
    if (gone_) co_return false;
    const int error = co_await send_all(ring_, client_, frame);
    if (error < 0) hang_up();
    co_return error >= 0;
}

// ---- from the client to the program ----

task<> stdio_session::read_client(self_pointer self) {
    if (!self->frames_.put(std::exchange(self->early_, {}), *self)) self->hang_up();
    while (!self->gone_ && !self->closing_) {
        ssize_t got = 0;
        int error = 0;
        {
            buffer_pool::lease buffer = self->buffers_.take();
            const std::span<std::byte> room = buffer.payload();
            got = ::recv(self->client_, room.data(), room.size(), MSG_DONTWAIT);
            error = errno;
            if (got > 0 &&
                !self->frames_.put(
                    {reinterpret_cast<const char*>(room.data()), static_cast<std::size_t>(got)}, *self))
                got = 0;
        }
        if (got == 0 || (got < 0 && error != EAGAIN && error != EINTR))
            self->hang_up();
        else
            std::ignore = co_await poll_once(self->ring_, self->client_, POLLIN);
    }
}

bool stdio_session::take_input(std::string_view part) {
    if (input_ended_ || input_.size() + part.size() > PINFOLD_STDIN_WINDOW) return false;
    if (!input_closed_) input_ += part;
    input_changed_.set();
    return true;
}

bool stdio_session::take_frame(std::uint32_t type, std::string_view payload) {
    const auto byte = [&](std::size_t i) {
        return static_cast<unsigned>(static_cast<unsigned char>(payload[i]));
    };
    const std::size_t size = payload.size();
    switch (type) {
    case PINFOLD_FRAME_STDIN_END:
        input_ended_ = true;
        input_changed_.set();
        return size == 0;
    case PINFOLD_FRAME_RESIZE: {
        if (size != 4) return false;
        const winsize window{.ws_row = static_cast<unsigned short>(byte(0) << 8 | byte(1)),
                             .ws_col = static_cast<unsigned short>(byte(2) << 8 | byte(3))};
        if (program_->streams.terminal) ::ioctl(program_->streams.output.get(), TIOCSWINSZ, &window);
        return true;
    }
    case PINFOLD_FRAME_SIGNAL: {
        if (size != 4) return false;
        const std::uint32_t number = byte(0) << 24 | byte(1) << 16 | byte(2) << 8 | byte(3);
        if (number < 1 || number >= NSIG) return false;
        group_.spawn(&stdio_session::forward_signal, program_, static_cast<int>(number));
        return true;
    }
    case PINFOLD_FRAME_DONE: hang_up(); return true;
    default: return false;
    }
}

task<> stdio_session::forward_signal(std::shared_ptr<program> to, int number) {
    co_await to->send_signal(number);
}

task<> stdio_session::write_input(self_pointer self) {
    unique_fd& to = self->program_->streams.input;
    std::size_t written = 0; // of what waits
    while (!self->gone_ && !self->closing_) {
        if (written >= credit_step || (written > 0 && written == self->input_.size())) {
            if (written < self->input_.size())
                self->input_.erase(0, written);
            else
                self->input_ = std::string(); // not clear(): an idle connection holds no memory
            co_await self->give_credit(static_cast<std::uint32_t>(std::exchange(written, 0)));
            continue;
        }
        if (self->input_.empty()) {
            if (self->input_ended_) break;
            self->input_changed_.reset();
            co_await self->input_changed_.wait();
            continue;
        }
        const ssize_t sent = ::write(to.get(), self->input_.data() + written, self->input_.size() - written);
        if (sent > 0)
            written += static_cast<std::size_t>(sent);
        else if (errno == EAGAIN)
            std::ignore = co_await poll_once(self->ring_, to.get(), POLLOUT);
        else if (errno != EINTR)
            break; // it reads no more; without credit the client stops sending
    }
    self->input_closed_ = true;
    self->input_ = std::string();
    if (self->program_->streams.terminal && self->input_ended_) {
        const char end_of_file = 4; // ^D: a terminal has no other way to say it
        std::ignore = ::write(to.get(), &end_of_file, 1);
    }
    if (!self->program_->streams.terminal) to.reset();
}

task<> stdio_session::give_credit(std::uint32_t bytes) {
    std::array<std::byte, PINFOLD_FRAME_HEADER + 4> frame{};
    pinfold_put32(reinterpret_cast<unsigned char*>(frame.data()) + PINFOLD_FRAME_HEADER, bytes);
    co_await send_frame(PINFOLD_FRAME_CREDIT, frame);
}

} // namespace pinfold
