#include "agent/api/server.hpp"

#include "agent/api/router.hpp"
#include "agent/tcp_listener.hpp"
#include "ring/timed_receive.hpp"

#include <algorithm>
#include <spdlog/spdlog.h>

namespace pinfold {

namespace {

constexpr std::size_t read_bytes = 4096;

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

} // namespace

server::server(cages& owned, api_socket socket, session_list* listed)
    : ring_(owned.ring()),
      group_(owned.group()),
      services_{.owned = owned, .listed = listed},
      socket_(std::move(socket)) {}

task<> server::run() {
    co_await accept_all(socket_.fd(), false);
}

task<> server::run_at(unique_fd listener) {
    listeners_.insert(listener.get());
    co_await accept_all(listener.get(), true);
    listeners_.erase(listener.get());
}

task<> server::accept_all(int listener, bool from_network) {
    while (!services_.stopping) {
        auto client = std::make_shared<unique_fd>(co_await accept(ring_, listener));
        if (services_.stopping) break;
        if (*client) {
            group_.spawn(&server::serve, this, client,
                         from_network ? peer_address(client->get()) : std::string());
            continue;
        }
        // Out of file descriptors, most likely: whoever waits in the backlog is served when one is free.
        std::ignore = co_await sleep_for(ring_, std::chrono::milliseconds(100));
    }
}

void server::stop() {
    services_.stopping = true;
    ring_.cancel(socket_.fd());
    for (const int each : listeners_) ring_.cancel(each);
    for (const int client : reading_) ring_.cancel(client);
    services_.owned.denials().poke();
    const std::set<stdio_session*> sessions = services_.sessions;
    for (stdio_session* each : sessions) each->stop();
}

task<> server::serve(server* self, std::shared_ptr<unique_fd> client, std::string by) {
    http::response refusal;
    if (by.empty() && !is_owner(client->get())) {
        refusal = answer_error(403, "this agent serves its owner only");
    } else if (self->connections_ >= most_connections && !self->make_room()) {
        refusal = answer_error(503, "too many connections: close some");
    } else {
        ++self->connections_;
        std::exception_ptr error;
        try {
            co_await self->converse(client->get(), by);
        } catch (...) {
            error = std::current_exception();
        }
        --self->connections_;
        if (error) std::rethrow_exception(error);
        co_return;
    }
    const std::string bytes = http::to_bytes(refusal, false);
    std::ignore = co_await send_all(self->ring_, client->get(), bytes_of(bytes));
}

// Who has said nothing for longest leaves for who comes: a crowd that only holds connections open keeps nobody out.
bool server::make_room() {
    if (idle_.empty()) return false;
    ring_.cancel(idle_.begin()->second);
    idle_.erase(idle_.begin());
    return true;
}

// Requests one after the other, until the client has enough or a route takes the connection over.
task<> server::converse(int client, std::string by) {
    std::string held; // bytes of the next request
    while (!services_.stopping) {
        exchange asked;
        http::response refusal;
        reading_.insert(client);
        upload_share upload(uploads_);
        const bool read = co_await read_request(client, held, upload, asked.request, refusal);
        reading_.erase(client);
        std::optional<http::response> response;
        bool keep_alive = false;
        if (read) {
            keep_alive = asked.request.keep_alive;
            asked.client = client;
            asked.by = by;
            asked.early = std::exchange(held, {});
            const bool may_stream = !asked.request.upgrade().empty();
            if (may_stream && services_.sessions.size() >= most_streams) {
                response = answer_error(503, "too many running programs");
            } else {
                if (may_stream) --connections_; // it counts as a stream from here on
                response = co_await answer(services_, asked);
                if (may_stream) ++connections_;
            }
            if (!response) co_return;
            held = std::move(asked.early);
        } else if (refusal.status != 200) {
            response = std::move(refusal);
        } else {
            co_return;
        }
        const std::string bytes = http::to_bytes(*response, keep_alive);
        if (co_await send_all(ring_, client, bytes_of(bytes)) < 0) co_return;
        const auto kept = response->kept;
        if (kept && co_await send_all(ring_, client, bytes_of(*kept)) < 0) co_return;
        if (!keep_alive) co_return;
    }
}

// Appends what comes next; the number of bytes, 0 at the end, or -errno.
task<int> server::receive_more(int client, std::string& held, clock::time_point limit) {
    const std::size_t before = held.size();
    const auto left = std::max<clock::duration>(limit - clock::now(), std::chrono::milliseconds(1));
    held.resize(before + read_bytes);
    const int got = co_await receive_within(ring_, client,
                                            std::as_writable_bytes(std::span(held).subspan(before)), left);
    held.resize(before + static_cast<std::size_t>(std::max(got, 0)));
    co_return got;
}

// False where there is none: `refusal` has a status then, or the client just left.
task<bool> server::read_request(int client, std::string& held, upload_share& upload, http::request& into,
                                http::response& refusal) {
    using enum http::request_reader::state;
    refusal.status = 200;
    http::request_reader reader;
    bool begun = !held.empty(), body_begun = false;
    clock::time_point limit = clock::now() + (begun ? header_time : idle_time), upload_end;
    for (;;) {
        std::size_t taken = 0;
        const auto state = reader.put(held, taken);
        held.erase(0, taken); // a header is taken when it is complete, not before
        if (state == done) break;
        if (state == bad) refusal = reader.refusal();
        if (state == bad) co_return false;
        if (state != header && !std::exchange(body_begun, true)) {
            limit = clock::now() + body_time;
            upload_end = clock::now() + upload_time;
            if (reader.is_upload() && !upload.take()) {
                refusal = answer_error(503, "too many files at once: send it again");
                co_return false;
            }
        }
        if (state == continue_me) {
            constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
            if (co_await send_all(ring_, client, bytes_of(go_on)) < 0) co_return false;
        }
        const auto ticket = ++tickets_;
        if (!begun) idle_.emplace(ticket, client);
        const int got = co_await receive_more(client, held, limit);
        idle_.erase(ticket);
        if (got == -ETIMEDOUT && begun) refusal = answer_error(408, "the request came too slowly");
        if (got <= 0 || services_.stopping) co_return false;
        if (!std::exchange(begun, true)) limit = clock::now() + header_time;
        // A file may take its time, as long as more of it comes.
        if (body_begun && reader.is_upload()) limit = std::min(clock::now() + body_time, upload_end);
    }
    into = reader.take();
    co_return true;
}

} // namespace pinfold
