#include "agent/gateway/gateway.hpp"

#include "agent/gateway/provider_words.hpp"
#include "agent/http_chunk.hpp"
#include "ring/timed_receive.hpp"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <spdlog/spdlog.h>

namespace pinfold {

namespace {

constexpr std::chrono::seconds head_time{30}, idle_time{300}, body_time{60};
constexpr std::size_t read_size = std::size_t{64} * 1024;

std::string field_of(const model_transfer& from, std::string_view wanted) {
    for (const auto& [name, value] : from.fields()) {
        if (name.size() == wanted.size() && std::ranges::equal(name, wanted, [](char a, char b) {
                return std::tolower(a) == std::tolower(b);
            }))
            return value;
    }
    return {};
}

// As Anthropic's API says it, which other clients take for a message, too.
std::string error_body(int status, const std::string& text) {
    const char* type = status == 401   ? "authentication_error"
                       : status == 403 ? "permission_error"
                       : status == 404 ? "not_found_error"
                       : status == 413 ? "request_too_large"
                       : status < 500  ? "invalid_request_error"
                                       : "api_error";
    return nlohmann::json{{"type", "error"}, {"error", {{"type", type}, {"message", "pinfold: " + text}}}}
        .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

} // namespace

struct gateway::connection {
    std::uint64_t cage = 0;
    unique_fd fd;
    std::string held; // read, and not yet part of a request
    bool gone = false;
    int watchers = 0;
    event watched;
    std::chrono::steady_clock::time_point waits_since;
    bool waits = false, in_answer = false, silence_told = false; // for the provider
};

gateway::gateway(uring& ring, task_group& group, settings with)
    : ring_(ring), group_(group), with_(std::move(with)), multi_(ring), silence_(ring, [this] {
          look_for_silence();
      }) {}

void gateway::take(std::uint64_t cage, unique_fd connection_fd) {
    auto on = std::make_shared<connection>();
    on->cage = cage;
    on->fd = std::move(connection_fd);
    group_.spawn(&gateway::serve, this, on);
}

void gateway::stop() {
    stopped_ = true;
    silence_.stop();
    for (connection* each : open_) {
        each->gone = true;
        ring_.cancel(each->fd.get());
    }
    if (open_.empty()) multi_.stop();
}

task<> gateway::serve(gateway* self, connection_pointer on) {
    self->open_.insert(on.get());
    bool more = !self->stopped_;
    while (more && !self->stopped_ && !on->gone) {
        std::string why;
        try {
            more = co_await self->exchange(on);
        } catch (const std::exception& error) {
            why = error.what();
        }
        if (why.empty()) continue;
        spdlog::error("model gateway: {}", why);
        more = co_await self->refuse(*on, 502, why);
    }
    self->open_.erase(on.get());
    if (self->stopped_ && self->open_.empty()) self->multi_.stop();
}

task<bool> gateway::say(connection& on, std::string bytes) {
    if (on.gone) co_return false;
    co_return co_await send_all(ring_, on.fd.get(), std::as_bytes(std::span(bytes))) >= 0;
}

task<bool> gateway::refuse(connection& on, int status, std::string text) {
    const std::string body = error_body(status, text);
    co_await say(on,
                 fmt::format("HTTP/1.1 {} Refused\r\nContent-Type: application/json\r\nContent-Length: {}\r\n"
                             "Connection: close\r\n\r\n{}",
                             status, body.size(), body));
    ::shutdown(on.fd.get(), SHUT_WR);
    co_return false;
}

// False where nothing more comes; what cannot be understood is answered.
task<bool> gateway::read_head(connection& on, model_request_reader& reader, std::string& body) {
    std::vector<char> buffer(read_size);
    bool begun = !on.held.empty();
    for (;;) {
        on.held.erase(0, reader.put(on.held, body));
        if (reader.bad() != 0)
            co_return co_await refuse(on, reader.bad(), "this is no request that is understood");
        if (reader.has_head()) co_return true;
        const int got = co_await receive_within(ring_, on.fd.get(), std::as_writable_bytes(std::span(buffer)),
                                                begun ? head_time : idle_time);
        if (got <= 0 || stopped_) co_return false;
        begun = true;
        on.held.append(buffer.data(), static_cast<std::size_t>(got));
    }
}

// The cage's body to the provider, as fast as that takes it. False where the cage left in the middle.
task<bool> gateway::send_body(connection& on, model_request_reader& reader, model_transfer& to) {
    std::vector<char> buffer(read_size);
    std::string body;
    while (!reader.done() && !to.ended()) {
        while (!to.takes_more() && !to.ended()) co_await to.news.wait();
        const int got = co_await receive_within(ring_, on.fd.get(), std::as_writable_bytes(std::span(buffer)),
                                                body_time);
        if (got <= 0 || stopped_) co_return false;
        on.held.append(buffer.data(), static_cast<std::size_t>(got));
        on.held.erase(0, reader.put(on.held, body));
        if (reader.bad() != 0)
            co_return co_await refuse(on, reader.bad(), "the request is too large, or is none");
        to.give(std::exchange(body, {}));
    }
    to.end_of_body();
    co_return true;
}

task<bool> gateway::exchange(connection_pointer on) {
    model_request_reader reader;
    std::string body;
    if (!co_await read_head(*on, reader, body)) co_return false;
    model_request asked = reader.head();
    upstream_request to;
    int status = 0;
    std::string why;
    try {
        const auto who = with_.who(on->cage);
        if (!who) throw model_refusal(403, "this cage is no session's, and only sessions have a model");
        to = find_upstream(with_.upstreams, *who, asked.target);
    } catch (const model_refusal& refused) {
        status = refused.status();
        why = refused.what();
    }
    if (status == 401 || status == 502) // for want of a credential, or of a place to send it to
        with_.heard(on->cage, {.outcome = provider_outcome::refused, .status = status, .text = why});
    if (status != 0) co_return co_await refuse(*on, status, why);
    if (reader.expects_continue() && !reader.done()) {
        if (!co_await say(*on, "HTTP/1.1 100 Continue\r\n\r\n")) co_return false;
    }
    model_transfer carried(multi_, to, asked, with_.authorities, with_.silence * settings::patience);
    if (asked.has_body) {
        carried.give(body);
        if (!co_await send_body(*on, reader, carried)) co_return false;
    }
    asked.keep_alive = asked.keep_alive && reader.done();
    group_.spawn(&gateway::watch_client, this, on, &carried.news);
    const bool more = co_await carry_answer(on, carried, asked);
    while (on->watchers > 0) {
        ring_.cancel(on->fd.get());
        co_await on->watched.wait();
    }
    co_return more;
}

// A cage that hangs up takes its request along: nobody pays for an answer that nobody reads.
task<> gateway::watch_client(gateway* self, connection_pointer on, event* news) {
    ++on->watchers;
    const int seen = co_await poll_once(self->ring_, on->fd.get(), POLLRDHUP);
    if (seen > 0) on->gone = true;
    news->pulse();
    --on->watchers;
    on->watched.pulse();
}

// ---- a provider that says nothing: its owner hears of it long before anybody gives up ----

void gateway::begin_wait(connection& on, bool in_answer) {
    on.waits_since = std::chrono::steady_clock::now();
    on.waits = true;
    on.in_answer = in_answer;
    on.silence_told = false;
    silence_.no_later_than(on.waits_since + with_.silence);
}

void gateway::look_for_silence() {
    const auto now = std::chrono::steady_clock::now();
    for (connection* each : open_) {
        if (!each->waits || each->silence_told) continue;
        if (now < each->waits_since + with_.silence) {
            silence_.no_later_than(each->waits_since + with_.silence);
            continue;
        }
        each->silence_told = true;
        const auto so_far = std::chrono::duration_cast<std::chrono::milliseconds>(now - each->waits_since);
        with_.heard(each->cage, provider_silent(so_far, each->in_answer));
    }
}

void gateway::tell_answer(const connection& on, const model_transfer& from, const model_request& asked,
                          const usage_counter& usage) const {
    const std::string broke_off = from.failure_text();
    if (!broke_off.empty()) return with_.heard(on.cage, provider_broke_off(from.status(), broke_off));
    const bool is_turn = asked.has_body && asked.target.find("/count_tokens") == std::string::npos;
    const auto what = judge_provider({.status = from.status(),
                                      .retry_after = field_of(from, "retry-after"),
                                      .error = usage.error(),
                                      .is_turn = is_turn});
    if (what) with_.heard(on.cage, *what);
}

task<bool> gateway::carry_answer(connection_pointer on, model_transfer& from, const model_request& asked) {
    begin_wait(*on, false);
    while (!from.has_head() && !from.ended() && !on->gone) co_await from.news.wait();
    on->waits = false;
    if (on->gone) co_return false;
    if (!from.has_head()) {
        with_.heard(on->cage, provider_unreachable(from.failure_text()));
        co_return co_await refuse(*on, 502, "the model's provider: " + from.failure_text());
    }
    usage_counter usage;
    usage.begin(field_of(from, "content-type"));
    const bool no_body = asked.method == "HEAD" || from.status() == 204 || from.status() == 304;
    std::string bytes = fmt::format("HTTP/1.1 {} Answer\r\n", from.status());
    for (const auto& [name, value] : from.fields()) {
        if (may_pass_back(name)) bytes += fmt::format("{}: {}\r\n", name, value);
    }
    if (!no_body) bytes += "Transfer-Encoding: chunked\r\n";
    bytes += asked.keep_alive ? "\r\n" : "Connection: close\r\n\r\n";
    for (;;) {
        const std::string part = from.take();
        usage.put(part);
        if (!part.empty() && !no_body) bytes += http_chunk(part);
        if (!bytes.empty() && !co_await say(*on, std::exchange(bytes, {}))) co_return false;
        if (on->gone) co_return false;
        if (from.has_more()) continue;
        if (from.ended()) break;
        begin_wait(*on, true);
        co_await from.news.wait();
        on->waits = false;
    }
    usage.end();
    tell_answer(*on, from, asked, usage);
    with_.counted(on->cage, usage.tokens_in(), usage.tokens_out());
    if (!from.failure_text().empty()) { // cut short: without the last chunk the cage sees that, too
        spdlog::warn("model gateway: the answer broke off: {}", from.failure_text());
        co_return false;
    }
    if (!no_body && !co_await say(*on, http_chunk(""))) co_return false;
    co_return asked.keep_alive;
}

} // namespace pinfold
