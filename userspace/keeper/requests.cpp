// The table: every message an agent may send, when it may, and what answers it. Nothing else reaches root.

#include "base/error.hpp"
#include "keeper/keeper.hpp"

#include <array>
#include <spdlog/spdlog.h>

namespace pinfold {

namespace {

enum class phase : std::uint8_t { before_hello, after_hello, never };

using handler = wire::message (*)(keeper&, client&, wire::body&);

struct rule {
    const char* name;
    phase when;
    handler act;
};

template <typename Message>
Message& as(wire::body& body) {
    return std::get<Message>(body);
}

wire::message answer(wire::body body) {
    return {.body = std::move(body)};
}

wire::message greet(keeper&, client& from, wire::body& body) {
    const auto& hello = as<wire::hello>(body);
    if (hello.version != wire::version)
        fail("the agent speaks version {} of the keeper's protocol and the keeper version {}: install both "
             "from one release",
             hello.version, wire::version);
    from.greet(hello.denials);
    return answer(wire::ok{});
}

// In the order of wire::body. What has no handler is the keeper's own to send.
constexpr std::array<rule, std::variant_size_v<wire::body>> table{{
    {"hello", phase::before_hello, greet},
    {"make", phase::after_hello,
     [](keeper& k, client& c, wire::body& b) { return k.make(c, as<wire::make>(b).spec); }},
    {"start", phase::after_hello,
     [](keeper& k, client& c, wire::body& b) {
         k.start(c, as<wire::start>(b).cage);
         return answer(wire::ok{});
     }},
    {"exec", phase::after_hello,
     [](keeper& k, client& c, wire::body& b) {
         return k.enter(c, as<wire::exec>(b).cage, as<wire::exec>(b).command);
     }},
    {"signal", phase::after_hello,
     [](keeper& k, client& c, wire::body& b) {
         const auto& m = as<wire::signal_process>(b);
         k.signal(c, m.cage, m.process, m.signal);
         return answer(wire::ok{});
     }},
    {"set limits", phase::after_hello,
     [](keeper& k, client& c, wire::body& b) {
         k.set_limits(c, as<wire::set_limits>(b).cage, as<wire::set_limits>(b).limits);
         return answer(wire::ok{});
     }},
    {"list", phase::after_hello, [](keeper& k, client& c, wire::body&) { return answer(k.list(c)); }},
    {"remove", phase::after_hello,
     [](keeper& k, client& c, wire::body& b) {
         k.remove(c, as<wire::remove_cage>(b).name);
         return answer(wire::ok{});
     }},
    {"plan", phase::after_hello,
     [](keeper& k, client& c, wire::body& b) {
         return answer(k.plan_for(c, as<wire::plan_request>(b).spec));
     }},
    {"probe", phase::after_hello,
     [](keeper& k, client& c, wire::body& b) { return k.probe(c, as<wire::probe>(b).mode); }},
    {"facts", phase::after_hello, [](keeper& k, client& c, wire::body&) { return answer(k.facts(c)); }},
    {"ok", phase::never, nullptr},
    {"failed", phase::never, nullptr},
    {"made", phase::never, nullptr},
    {"entered", phase::never, nullptr},
    {"cages", phase::never, nullptr},
    {"plan text", phase::never, nullptr},
    {"facts", phase::never, nullptr},
    {"ended", phase::never, nullptr},
    {"denials", phase::never, nullptr},
    {"claim", phase::after_hello,
     [](keeper& k, client& c, wire::body& b) {
         k.claim(c, as<wire::claim>(b).cage);
         return answer(wire::ok{});
     }},
    {"explain", phase::after_hello,
     [](keeper& k, client& c, wire::body& b) { return answer(k.explain(c, as<wire::explain>(b))); }},
    {"explained", phase::never, nullptr},
}};

wire::message refuse(const char* name, const std::string& why, int exit_code = 125) {
    spdlog::info("{} refused: {}", name, why);
    return answer(wire::failed{.text = why, .exit_code = static_cast<std::uint32_t>(exit_code)});
}

} // namespace

void handle_request(keeper& target, client& from, wire::message request) {
    const rule& entry = table.at(request.body.index());
    wire::message reply;
    try {
        if (entry.act == nullptr) fail("the message \"{}\" is the keeper's to send", entry.name);
        if ((entry.when == phase::before_hello) == from.greeted())
            fail("the message \"{}\" comes at the wrong time: hello is first, and once", entry.name);
        if (!request.fds.empty())
            fail("the message \"{}\" carries file descriptors: the keeper takes none", entry.name);
        reply = entry.act(target, from, request.body);
    } catch (const cage_failure& error) {
        reply = refuse(entry.name, error.what(), error.exit_code());
    } catch (const std::exception& error) {
        reply = refuse(entry.name, error.what());
    }
    reply.number = request.number;
    if (!from.send(std::move(reply)))
        throw failure("the agent does not take its answer"); // the caller drops it
}

} // namespace pinfold
