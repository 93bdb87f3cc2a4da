// The JSON of a cage's requests as its agent rewrites it: bounded, one reading, and what the agent says stands there.
#include "agent/proxy/cage_ask.hpp"
#include "agent/proxy/json_shape.hpp"
#include "demand.hpp"

#include <nlohmann/json.hpp>

namespace {

using namespace pinfold;
using nlohmann::json;

void judge_rpc(const json& sent, const json& came) {
    const std::string method = came.value("method", "");
    fuzz::demand(method == "SendMessage" || method == "SendStreamingMessage" || method == "GetTask" ||
                 method == "AckTask");
    // Who asks is written where a message is, whatever is asked with it; nothing else is another than it was.
    json before = sent, after = came;
    const bool has_message = before.contains("params") && before["params"].is_object() &&
                             before["params"].contains("message") && before["params"]["message"].is_object();
    fuzz::demand(has_message || !method.starts_with("Send"));
    if (has_message) {
        fuzz::demand(came["params"]["message"]["metadata"]["shrooms/from"] == "laptop/w1");
        const json& metadata = before["params"]["message"].value("metadata", json());
        if (!metadata.is_object()) before["params"]["message"]["metadata"] = json::object();
        before["params"]["message"]["metadata"].erase("shrooms/from");
        after["params"]["message"]["metadata"].erase("shrooms/from");
    }
    fuzz::demand(before == after);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view body = fuzz::text_of(data, size);
    const proxy_head head{.method = "POST", .target = "/peer/fd12::7/a2a"};
    const proxy_asker asker{.session = "w1"};
    const auto wrong = judge_json_shape(body);
    for (const proxy_kind kind : {proxy_kind::rpc, proxy_kind::task_update}) {
        const cage_ask ask{.kind = kind, .addr = "fd12::7", .path = "/a2a"};
        const auto made = rewrite_body(ask, head, std::string(body), asker, "laptop");
        if (!made) {
            fuzz::demand(made.error().status == 400 || made.error().status == 403);
            continue;
        }
        const bool is_default = kind == proxy_kind::task_update && body.empty();
        fuzz::demand(!wrong || is_default); // what has two readings never goes on
        fuzz::demand(!judge_json_shape(*made));
        const json came = json::parse(*made), sent = is_default ? json::object() : json::parse(body);
        if (kind == proxy_kind::rpc) {
            judge_rpc(sent, came);
        } else {
            fuzz::demand(came["session"] == "w1");
            json before = sent, after = came;
            before.erase("session");
            after.erase("session");
            fuzz::demand(before == after);
        }
        const auto again = rewrite_body(ask, head, *made, asker, "laptop");
        fuzz::demand(again && *again == *made);
    }
    return 0;
}
