#include "agent/outbox/carrier.hpp"

#include "agent/proxy/peer.hpp"
#include "agent/sessions/place.hpp"
#include "base/beneath.hpp"
#include "base/text.hpp"
#include "ring/next_turn.hpp"

#include <algorithm>
#include <ctime>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

namespace pinfold {

namespace {

constexpr std::chrono::seconds answer_time = std::chrono::minutes(5);
constexpr std::size_t part_size = std::size_t{256} * 1024;
constexpr std::size_t most_carried = 1000; // tasks whose line is remembered

std::string file_name(std::string_view from) {
    std::string name;
    for (const char c : from)
        name += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
                        c == '-'
                    ? c
                    : '_';
    return name.substr(0, 150);
}

std::string local_time() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    ::localtime_r(&now, &parts);
    return fmt::format("{:04}{:02}{:02}-{:02}{:02}{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                       parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::string files_text(std::size_t count) {
    return count == 1 ? "1 file" : fmt::format("{} files", count);
}

} // namespace

outbox_carrier::outbox_carrier(session_list& listed, settings with)
    : listed_(listed), with_(std::move(with)), machines_(listed.world().ring, with_.machines) {}

std::filesystem::path outbox_carrier::folder_of(const std::string& session) const {
    const std::shared_ptr<pinfold::session> one = listed_.get(session);
    if (one->options().outbox.empty() || mode_of(one->options()) != run_mode::sealed)
        throw session_refusal(400, fmt::format("session \"{}\" is not sealed, so it has no outbox", session));
    return one->options().outbox;
}

task<outbox_carrier::contents> outbox_carrier::list(std::string session) {
    contents made{.folder = folder_of(session), .files = {}, .left = {}};
    std::error_code error;
    if (!std::filesystem::exists(std::filesystem::symlink_status(made.folder, error)))
        co_return made; // before its first start
    outbox::walk seen(made.folder, {}, with_.within);
    while (seen.step()) {
        if (const auto one = seen.take())
            made.files.push_back({.name = one->name,
                                  .size = static_cast<std::uint64_t>(one->seen.st_size),
                                  .time = one->seen.st_mtim.tv_sec});
        co_await next_turn(listed_.world().ring);
    }
    made.left = seen.left();
    made.untold = seen.untold();
    co_return made;
}

// ---- sending ----

task<> outbox_carrier::transmit(parcel what, const outbox::packer& packed) {
    peer agent(listed_.world().ring);
    std::string host = "localhost";
    if (what.address.empty()) {
        co_await agent.connect(with_.own_agent);
    } else {
        co_await agent.connect(what.address, with_.port);
        const bool is_v6 = what.address.find(':') != std::string::npos;
        host = fmt::format("{}:{}", is_v6 ? "[" + what.address + "]" : what.address, with_.port);
    }
    // No X-Shrooms-Caged: the agent sends it, and the cage has no part in it. Who may send files is the receiver's word.
    co_await agent.send(
        fmt::format("POST /v1/sessions/{}/drop?name={}&note={} HTTP/1.1\r\nHost: {}\r\nContent-Type: "
                    "application/gzip\r\nX-Shrooms-From-Session: {}\r\nConnection: close\r\n"
                    "Content-Length: {}\r\n\r\n",
                    percent_encoded(what.to), percent_encoded(what.name), percent_encoded(what.note), host,
                    what.session, packed.size()));
    std::string refused;
    try {
        std::string part(part_size, '\0');
        for (std::uint64_t at = 0; at < packed.size();) {
            const auto got = check(
                ::pread(packed.content(), part.data(), part.size(), static_cast<off_t>(at)),
                "read the packed outbox");
            if (got == 0) fail("read the packed outbox: it is shorter");
            co_await agent.send(std::string_view(part).substr(0, static_cast<std::size_t>(got)));
            at += static_cast<std::uint64_t>(got);
        }
    } catch (const std::system_error& error) {
        refused = error.what(); // it may have answered already that it will not take it
    }
    const peer::answer answer = co_await agent.read_head(answer_time);
    std::string body;
    for (std::string part = co_await agent.read_body(); !part.empty() && body.size() < 4096;
         part = co_await agent.read_body())
        body += part;
    if (answer.status / 100 == 2) co_return;
    // {"error": "…"}; another agent wrote it, so it is read as text.
    if (const std::size_t at = body.find(':'); at != std::string::npos && body.starts_with("{\"error\""))
        body = body.substr(at + 1, body.rfind('}') - at - 1);
    fail("{} answered {}: {}", what.address.empty() ? "this agent" : what.address, answer.status,
         plain_line(std::string_view(body).substr(0, 600)));
}

task<std::size_t> outbox_carrier::deliver(parcel what) {
    const one_by_one::turn turn = co_await turn_.take();
    const std::filesystem::path folder = folder_of(what.session);
    std::error_code error;
    if (!std::filesystem::exists(std::filesystem::symlink_status(folder, error))) co_return 0;
    outbox::packer packed(folder, what.what, with_.within, listed_.world().with.state);
    while (packed.step()) co_await next_turn(listed_.world().ring);
    if (packed.files() == 0) co_return 0;
    if (packed.size() > with_.within.bytes)
        fail("packed, it has {} bytes, and {} can be sent at once; it stays in {}", packed.size(),
             with_.within.bytes, folder.native());
    const std::size_t left = packed.seen().left().size() + packed.seen().untold();
    if (left > 0) what.note += fmt::format(" {} left out; the notice in it says which and why.", left);
    co_await transmit(what, packed);
    co_return packed.files();
}

task<std::string> outbox_carrier::send(std::string session, std::string to, std::string only) {
    std::ignore = folder_of(session);
    const std::size_t slash = to.find('/');
    if (slash == 0 || slash == std::string::npos || !is_session_name(to.substr(slash + 1)))
        throw session_refusal(400, "to: must be MACHINE/SESSION");
    const std::string machine_name = to.substr(0, slash);
    std::vector<machine> known;
    try {
        known = (co_await machines_.read())->machines;
    } catch (const std::exception& error) {
        spdlog::warn("the other machines are not known: {}", error.what());
    }
    const auto found = std::ranges::find_if(known, [&](const machine& each) {
        return each.name == machine_name || each.name.substr(0, each.name.find('.')) == machine_name;
    });
    const bool is_own = known.empty() ? machine_name == with_.machines.name : found == known.begin();
    if (!is_own && found == known.end())
        throw session_refusal(404, fmt::format("there is no machine \"{}\" here", plain_line(machine_name)));
    if (is_own) std::ignore = listed_.get(to.substr(slash + 1));
    parcel what{.session = session,
                .to = to.substr(slash + 1),
                .address = is_own ? "" : found->addr,
                .name = fmt::format("{}-outbox-{}.tar.gz", file_name(session), local_time()),
                .note = fmt::format("The outbox of the sealed session {}: untrusted.", session),
                .what = {.only = std::move(only)}};
    const std::string name = what.name;
    std::string why;
    int status = 502;
    try {
        const std::size_t count = co_await deliver(std::move(what));
        if (count > 0) co_return fmt::format("sent {} ({}) to {}", name, files_text(count), to);
        why = "there is nothing in it that could be sent";
        status = 409;
    } catch (const std::exception& error) {
        why = error.what();
        if (why.starts_with("only: ")) status = 400;
    }
    throw session_refusal(status, status == 400 ? why
                                                : fmt::format("the outbox of \"{}\" was not sent to {}: {}",
                                                              session, plain_line(to), why));
}

task<std::string> outbox_carrier::carry_results(std::string session, std::string to, std::string address,
                                                std::int64_t began_ms, std::string message) {
    const std::string key = session + "\n" + to + "\n" + message;
    if (const auto known = carried_.find(key); known != carried_.end()) co_return known->second;
    const auto found = listed_.all().find(session);
    const std::size_t slash = to.rfind('/');
    if (found == listed_.all().end() || found->second->options().outbox.empty() || slash == std::string::npos)
        co_return "";
    parcel what{
        .session = session,
        .to = to.substr(slash + 1),
        .address = std::move(address),
        .name = fmt::format("{}-{}.tar.gz", file_name(session), file_name(message)),
        .note = fmt::format("The results of the sealed session {}: untrusted.", session),
        // A file's time has been written down by the clock of the kernel's last tick: a second before.
        .what = {.only = "", .since_ns = (began_ms - 1000) * 1'000'000}};
    const std::string name = what.name;
    std::string line;
    try {
        if (const std::size_t count = co_await deliver(std::move(what)); count > 0)
            line = fmt::format("Its results: sent {} ({}) to {}", name, files_text(count), to);
    } catch (const std::exception& error) {
        line = fmt::format("Its results were not sent to {}: {}", to, error.what());
        spdlog::warn("session \"{}\": {}", session, line);
    }
    if (carried_.size() >= most_carried) carried_.clear();
    carried_.insert_or_assign(key, line);
    co_return line;
}

} // namespace pinfold
