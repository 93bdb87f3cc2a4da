// A2A v1.0 over JSON-RPC 2.0, read from hostile bytes and written: no state, no I/O.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

namespace pinfold {

namespace rpc_code {
inline constexpr int no_json = -32700, no_request = -32600, no_method = -32601, bad_params = -32602,
                     internal = -32603, no_task = -32001, not_cancelable = -32002, not_supported = -32004,
                     only_text = -32005, too_many = -32050;
}

enum class rpc_method : std::uint8_t { send, stream, get, subscribe, cancel, acknowledge, list };

struct rpc_request {
    std::string id = "null"; // JSON, as it came: a string, a number or null
    rpc_method method = rpc_method::get;
    std::string session; // by the path, else by what the request names; empty = nothing names one
    std::string task;    // of all but new messages; empty in a first message
    // Of a message:
    std::string message; // its sender's id of it
    std::string text;
    std::string claimed_from; // metadata shrooms/from: a claim, unless the sender's agent wrote it
    std::string title;
    std::optional<bool> blocking; // nothing = as its asker's version of A2A means by that
    // Of a list: empty and 0 = all
    std::string context, state;
    std::size_t page_size = 0;
    std::int64_t page_after = 0;        // a task's number
    std::optional<std::size_t> history; // how many messages of a task are wanted at most
};

struct rpc_failure {
    std::string id = "null";
    int code = rpc_code::internal;
    std::string text;
};

inline constexpr std::size_t longest_message_id = 128, longest_title = 120;

// `path_session`: of /a2a/NAME; empty at /a2a. Never throws on what was sent.
[[nodiscard]] std::expected<rpc_request, rpc_failure> read_rpc(std::string_view body,
                                                               std::string_view path_session);

// `result` is JSON. Each is one line, without its end.
[[nodiscard]] std::string rpc_reply(std::string_view id, std::string_view result);
[[nodiscard]] std::string rpc_reply(const rpc_failure& failure);

// What may stand behind the ':' of a task's id, and so in a path.
[[nodiscard]] bool is_message_id(std::string_view text) noexcept;
// One line of at most so many characters.
[[nodiscard]] std::string one_line(std::string_view text, std::size_t characters);

} // namespace pinfold
