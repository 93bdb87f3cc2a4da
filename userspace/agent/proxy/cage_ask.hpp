// What a cage may ask of agents, and how it leaves the machine: rewritten by its own agent, which says who asks. Pure:
// hostile bytes end here.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pinfold {

struct machine {
    std::string name;
    std::string addr; // an IP literal, as getnameinfo() writes it
};

// Numeric, of IPv4 or IPv6, without a zone.
[[nodiscard]] bool is_address(const std::string& text);

// Whose socket it is. The session may be renamed meanwhile, so it is asked anew for each request.
struct proxy_asker {
    std::string session;
    bool sealed = false;
};

struct proxy_refusal {
    int status = 400;
    std::string text;
};

// The request line and the two fields that are passed on. Nothing else that a cage sends leaves it.
struct proxy_head {
    std::string method;
    std::string target; // as it came
    std::string content_type;
    std::string accept;
};

enum class proxy_kind : std::uint8_t {
    machines,    // GET /machines, answered here
    read,        // sessions, cards
    rpc,         // JSON-RPC, by its method
    task_update, // of the asker's own tasks, at its own machine
    drop,        // a file for another session
};

inline constexpr std::size_t largest_ask = std::size_t{16} << 20; // of a JSON body, held while it is read
inline constexpr std::uint64_t largest_drop = std::uint64_t{100} << 20; // streamed

struct cage_ask {
    proxy_kind kind = proxy_kind::read;
    std::string addr;  // of the machine, as it stands in the list of them
    bool own = false;  // this machine
    std::string path;  // for the receiver; every segment encoded anew, so it means the same there
    std::string query; // "" or "?…"
};

// By the table of what a cage's tools need (docs/proxy.md). 400: not to be read in one way. 403: not from a cage.
// 502: the machines are not known.
[[nodiscard]] std::expected<cage_ask, proxy_refusal> judge_head(const proxy_head& head,
                                                                const proxy_asker& asker,
                                                                std::span<const machine> machines);

// The body as it goes on: with shrooms/from or the task's session written by this agent. `self` is this machine's name.
[[nodiscard]] std::expected<std::string, proxy_refusal> rewrite_body(const cage_ask& ask,
                                                                     const proxy_head& head, std::string body,
                                                                     const proxy_asker& asker,
                                                                     std::string_view self);

// The head of the request to the receiver, and the body where it is there. `length` of the body; nothing = it comes in
// chunks.
[[nodiscard]] std::string forwarded_head(const cage_ask& ask, const proxy_head& head,
                                         const proxy_asker& asker, std::optional<std::uint64_t> length,
                                         std::string_view body = {});

[[nodiscard]] std::string machines_json(std::span<const machine> all);

} // namespace pinfold
