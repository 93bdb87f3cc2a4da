// A harness as a translation: what a program says becomes events of its session, and what people say becomes its input.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace pinfold::harness {

// What a line of the program's output means, in order.
struct said { // to be kept and shown: an event of kind "claude", in the shape of Claude Code's stream-json
    std::string json;
    std::string text; // what an assistant said in it, for people; empty = nothing
};
struct partial { // shown and not kept
    std::string text;
};
struct conversation { // its own id of it, to resume by
    std::string id;
    std::string model;
};
struct turn_began {}; // also one that it began itself
struct turn_ended {
    bool failed = false;
    std::uint64_t context_used = 0, context_window = 0; // tokens; 0 = not said
};
struct asks { // it waits for an answer
    std::string id;
    std::string tool;
    std::string input;        // JSON
    bool is_question = false; // needs answers, not a yes or no
};
struct asks_no_more { // it withdrew the question
    std::string id;
};
struct provider_failed { // the model's provider, as it says; it asks again by itself, or the turn ends
    int status = 0;      // 0 = not said
    std::string text;
};
struct limit_reached { // of a subscription; an empty reason = there is none any more
    std::string reason;
    std::int64_t until_seconds = 0; // since 1970; 0 = not said
};
using news = std::variant<said, partial, conversation, turn_began, turn_ended, asks, asks_no_more,
                          provider_failed, limit_reached>;

struct answer {
    bool allow = false;
    std::string message;
    std::map<std::string, std::string> answers; // question -> what was said
};

// One running program. Pure: bytes in, bytes out.
class dialogue {
public:
    dialogue() = default;
    dialogue(const dialogue&) = delete;
    dialogue& operator=(const dialogue&) = delete;
    virtual ~dialogue() = default;

    // Written before anything else; may be empty.
    [[nodiscard]] virtual std::string opening() = 0;
    // A line of its output without the newline, whatever it holds.
    [[nodiscard]] virtual std::vector<news> take(std::string_view line) = 0;
    [[nodiscard]] virtual std::string message(std::string_view text) = 0;
    // Nothing where its answer is no answer to what it asked.
    [[nodiscard]] virtual std::optional<std::string> reply(const asks& to, const answer& what) = 0;
    // What ends the turn; nothing where a signal does.
    [[nodiscard]] virtual std::optional<std::string> interrupt() = 0;
};

// What a program is started with.
struct start {
    std::string session, machine;
    std::string conversation; // to resume; empty = a new one
    bool skip_permissions = false;
    bool read_only_git = false;
    std::vector<std::string> command; // of a `command` session
    std::string program;              // where the machine has it, links resolved
    std::string tools;                // the MCP server that is in its cage; empty = none
    std::vector<std::string> more;    // further arguments of the machine's configuration
};

struct capabilities {
    bool approve = false, takeover = false;
};

// What is known of a kind of harness: one object for each, in all().
class kind {
public:
    kind() = default;
    kind(const kind&) = delete;
    kind& operator=(const kind&) = delete;
    virtual ~kind() = default;

    [[nodiscard]] virtual const char* name() const = 0;
    [[nodiscard]] virtual const char* title() const = 0;
    [[nodiscard]] virtual capabilities can() const = 0;
    [[nodiscard]] virtual std::vector<std::string> arguments(const start& how) const = 0;
    [[nodiscard]] virtual std::unique_ptr<dialogue> converse() const = 0;
    // Takes a message in the middle of a turn; else the message waits for its end.
    [[nodiscard]] virtual bool takes_more() const = 0;
    // One program for each message: its input ends behind the message, and its end is the turn's end.
    [[nodiscard]] virtual bool one_turn() const { return false; }
};

[[nodiscard]] const std::vector<const kind*>& all(); // claude first, then by name
[[nodiscard]] const kind* find(std::string_view name);

// Lines of a stream that comes in pieces. A line over the limit is dropped whole, and counted.
class line_splitter {
public:
    static constexpr std::size_t longest = std::size_t{64} << 20;

    explicit line_splitter(std::size_t limit = longest) : limit_(limit) {}
    // Calls take(line) for each complete one, without its newline and a carriage return before it.
    template <typename Take>
    void put(std::string_view bytes, Take&& take) {
        while (!bytes.empty()) {
            const std::size_t end = bytes.find('\n');
            add(bytes.substr(0, end));
            if (end == std::string_view::npos) return;
            bytes.remove_prefix(end + 1);
            finish(take);
        }
    }
    // What stands behind the last newline, at the end of the stream.
    template <typename Take>
    void end(Take&& take) {
        if (!held_.empty() || skipping_) finish(take);
    }
    [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_; }

private:
    void add(std::string_view bytes) {
        if (skipping_) return;
        if (held_.size() + bytes.size() > limit_) {
            skipping_ = true;
            ++dropped_;
            held_ = std::string(); // gives the memory back
            return;
        }
        held_ += bytes;
    }
    template <typename Take>
    void finish(Take&& take) {
        const bool whole = !std::exchange(skipping_, false);
        std::string line = std::exchange(held_, {});
        if (line.ends_with('\r')) line.pop_back();
        if (whole && !line.empty()) take(std::string_view(line));
    }

    std::size_t limit_;
    std::string held_;
    std::uint64_t dropped_ = 0;
    bool skipping_ = false;
};

} // namespace pinfold::harness
