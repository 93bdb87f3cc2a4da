// A cage's bytes at its proxy socket, whole and cut anywhere: what goes on is one request of the allowed ones, at a known
// machine, and an agent that reads it sees the cage's name once.
#include "agent/api/http.hpp"
#include "agent/proxy/ask_reader.hpp"
#include "demand.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace {

using namespace pinfold;

struct seen {
    bool has_head = false;
    proxy_head head;
    std::string body;
    int refused = 0;

    [[nodiscard]] bool is_whole() const { return has_head && refused == 0; }
    [[nodiscard]] bool is_like(const seen& other) const {
        return head.method == other.head.method && head.target == other.head.target &&
               head.content_type == other.head.content_type && head.accept == other.head.accept &&
               body == other.body;
    }
};

// `cut`: how many bytes come at once.
seen read(std::string_view bytes, std::size_t cut) {
    ask_reader reader;
    std::string held, part;
    seen made;
    const auto more = [&] {
        const std::size_t size = std::min(cut, bytes.size());
        held += bytes.substr(0, size);
        bytes.remove_prefix(size);
        return size > 0;
    };
    reader.begin();
    while (!reader.take_head(held))
        if (!more()) return made;
    if (reader.refusal()) return made.refused = reader.refusal()->status, made;
    made.has_head = true;
    made.head = reader.head();
    while (true) {
        const auto what = reader.take_part(held, part);
        if (what == ask_reader::part::some) made.body += part;
        if (what == ask_reader::part::some) fuzz::demand(!part.empty());
        if (what == ask_reader::part::whole) return made;
        if (what == ask_reader::part::refused) return made.refused = reader.refusal()->status, made;
        if (what == ask_reader::part::more && !more()) return made.refused = 408, made;
    }
}

// As another agent reads it.
void judge_forwarded(const cage_ask& ask, const std::string& head, std::string_view session) {
    http::request_reader receiver;
    std::size_t taken = 0;
    const auto state = receiver.put(head, taken);
    fuzz::demand(state == http::request_reader::state::done && taken == head.size());
    const http::request got = receiver.take();
    fuzz::demand(got.field("x-shrooms-caged") == session);
    fuzz::demand(got.fields.count("x-shrooms-caged") == 1 && got.fields.count("x-shrooms-from-session") == 0);
    for (const auto& [name, value] : got.fields)
        fuzz::demand(name == "host" || name == "x-shrooms-caged" || name == "content-type" ||
                     name == "accept" || name == "content-length");
    const std::string& path = got.path;
    const auto begins = [&](std::string_view with) { return path.starts_with(with); };
    switch (ask.kind) {
    case proxy_kind::machines: fuzz::demand(false); break;
    case proxy_kind::read:
        fuzz::demand(got.method == "GET" &&
                     (path == "/v1/sessions" || path.ends_with("/.well-known/agent-card.json")));
        break;
    case proxy_kind::rpc: fuzz::demand(got.method == "POST" && (path == "/a2a" || begins("/a2a/"))); break;
    case proxy_kind::task_update:
        fuzz::demand(got.method == "POST" && begins("/v1/tasks/") && ask.own);
        break;
    case proxy_kind::drop:
        fuzz::demand(got.method == "POST" && begins("/v1/sessions/") && path.ends_with("/drop"));
        break;
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) return 0;
    const std::string_view bytes = fuzz::text_of(data + 1, size - 1);
    const seen whole = read(bytes, bytes.size());
    // Of what is no request, one reader may still wait for more where the other has seen enough.
    const seen cut = read(bytes, std::size_t{1} + data[0] % 64);
    fuzz::demand(whole.is_whole() == cut.is_whole() && (!whole.is_whole() || whole.is_like(cut)));
    if (!whole.has_head) return 0;
    static const std::vector<machine> mesh{{"laptop", "fd12::1"}, {"pi5", "fd12::7"}, {"old", "198.19.0.4"}};
    for (const bool sealed : {false, true}) {
        const proxy_asker asker{.session = "w1", .sealed = sealed};
        const auto ask = judge_head(whole.head, asker, mesh);
        if (!ask) {
            fuzz::demand(ask.error().status >= 400 && !ask.error().text.empty());
            continue;
        }
        fuzz::demand(!judge_head(whole.head, asker, {}) || ask->kind == proxy_kind::machines);
        if (ask->kind == proxy_kind::machines) continue;
        fuzz::demand(!sealed || ask->kind == proxy_kind::task_update);
        fuzz::demand(ask->addr == "fd12::1" || ask->addr == "fd12::7" || ask->addr == "198.19.0.4");
        judge_forwarded(*ask, forwarded_head(*ask, whole.head, asker, 0), "w1");
    }
    return 0;
}
