#include "agent/proxy/connection.hpp"

#include "agent/proxy/grow.hpp"

#include <algorithm>
#include <boost/beast/http/status.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>

namespace pinfold {

namespace beast = boost::beast;
using namespace std::chrono_literals;

namespace {

constexpr std::chrono::seconds head_time = 10s, idle_time = 60s, body_time = 60s;
constexpr std::size_t head_read = std::size_t{4} * 1024, body_read = std::size_t{64} * 1024;
constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";

} // namespace

std::string to_bytes(const proxy_refusal& from) {
    const auto reason = beast::http::obsolete_reason(static_cast<beast::http::status>(from.status));
    const std::string body = nlohmann::json{{"error", from.text}}.dump(
                                 -1, ' ', false, nlohmann::json::error_handler_t::replace) +
                             "\n";
    return fmt::format("HTTP/1.1 {} {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n"
                       "Connection: close\r\n\r\n{}",
                       from.status, std::string_view(reason.data(), reason.size()), body.size(), body);
}

timed_receive proxy_connection::more(std::chrono::nanoseconds limit) {
    held_before_ = held_.size();
    grow(held_, held_before_ + (reader_.has_head() ? body_read : head_read));
    return receive_within(ring_, socket_.get(),
                          std::as_writable_bytes(std::span(held_).subspan(held_before_)), limit);
}

bool proxy_connection::took(int size) {
    held_.resize(held_before_ + static_cast<std::size_t>(std::max(size, 0)));
    return size > 0;
}

task<bool> proxy_connection::read_head() {
    reader_.begin();
    told_to_go_on_ = false;
    std::optional<std::chrono::steady_clock::time_point> end; // of the whole head, from its first byte
    while (!reader_.take_head(held_)) {
        std::chrono::nanoseconds limit = idle_time;
        if (reader_.has_begun() || !held_.empty()) {
            const auto now = std::chrono::steady_clock::now();
            if (!end) end = now + head_time;
            limit = *end - now;
        }
        if (limit <= limit.zero() || !took(co_await more(limit))) {
            held_ = {};
            co_return false;
        }
    }
    co_return !reader_.refusal();
}

task<std::optional<std::string>> proxy_connection::read_part() {
    std::string part;
    if (reader_.expects_continue() && !std::exchange(told_to_go_on_, true) && co_await send(go_on) < 0)
        co_return std::nullopt;
    while (true) {
        switch (reader_.take_part(held_, part)) {
        case ask_reader::part::some: co_return part;
        case ask_reader::part::whole: co_return std::string();
        case ask_reader::part::refused: co_return std::nullopt;
        case ask_reader::part::more: break;
        }
        if (!took(co_await more(body_time))) {
            reader_.refuse(408, "the body did not come whole");
            co_return std::nullopt;
        }
    }
}

task<std::optional<std::string>> proxy_connection::read_body(std::size_t most) {
    std::string whole;
    if (announced().value_or(0) > most) {
        reader_.refuse(413, fmt::format("the body is longer than {} MiB", most >> 20U));
        co_return std::nullopt;
    }
    while (true) {
        auto part = co_await read_part();
        if (!part) co_return std::nullopt;
        if (part->empty()) co_return whole;
        if (whole.empty())
            whole = std::move(*part);
        else
            whole += *part;
        if (whole.size() <= most) continue;
        reader_.refuse(413, fmt::format("the body is longer than {} MiB", most >> 20U));
        co_return std::nullopt;
    }
}

} // namespace pinfold
