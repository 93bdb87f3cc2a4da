// Claude Code: stream-json both ways, permissions through control requests.
#include "agent/harness/json_text.hpp"
#include "agent/harness/kinds.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace pinfold::harness {

namespace {

constexpr const char* no_reason = "The owner does not allow this.";

class claude_dialogue final : public dialogue {
public:
    [[nodiscard]] std::string opening() override { return {}; }

    [[nodiscard]] std::vector<news> take(std::string_view line) override {
        std::vector<news> list;
        const json from = parse_line(line);
        const std::string type = text_at(from, "type");
        if (type.empty()) return list; // a warning of its run time, or garbage: nothing to show
        if (type == "stream_event") {
            take_partial(from, list);
            return list;
        }
        if (type == "control_response" || type == "keep_alive") return list;
        if (type == "control_cancel_request") {
            list.emplace_back(asks_no_more{text_at(from, "request_id")});
            return list;
        }
        note_conversation(from, list);
        const bool itself = type == "assistant" || type == "user" ||
                            (type == "system" && text_at(from, "subtype") == "task_notification");
        if (itself) list.emplace_back(turn_began{});
        const bool speaks = type == "assistant" && !at(from, "parent_tool_use_id").is_string();
        list.emplace_back(said{.json = std::string(line),
                               .text = speaks ? spoken_text(at(at(from, "message"), "content")) : ""});
        if (type == "assistant") note_context(from);
        if (type == "control_request") take_request(from, list);
        if (type == "result") take_result(from, list);
        if (type == "system" && text_at(from, "subtype") == "api_retry") take_retry(from, list);
        if (type == "rate_limit_event") take_limit(at(from, "rate_limit_info"), list);
        return list;
    }

    [[nodiscard]] std::string message(std::string_view text) override {
        return line_of(
            {{"type", "user"},
             {"message",
              {{"role", "user"}, {"content", json::array({{{"type", "text"}, {"text", text}}})}}}});
    }

    [[nodiscard]] std::optional<std::string> reply(const asks& to, const answer& what) override {
        json decision;
        if (what.allow) {
            json input = json::parse(to.input, nullptr, false);
            if (input.is_discarded()) input = json::object();
            if (to.is_question) input["answers"] = what.answers;
            decision = {{"behavior", "allow"}, {"updatedInput", std::move(input)}};
        } else {
            decision = {{"behavior", "deny"}, {"message", what.message.empty() ? no_reason : what.message}};
        }
        return line_of(
            {{"type", "control_response"},
             {"response",
              {{"subtype", "success"}, {"request_id", to.id}, {"response", std::move(decision)}}}});
    }

    [[nodiscard]] std::optional<std::string> interrupt() override {
        return line_of({{"type", "control_request"},
                        {"request_id", "interrupt-" + std::to_string(++interrupts_)},
                        {"request", {{"subtype", "interrupt"}}}});
    }

private:
    static void take_partial(const json& from, std::vector<news>& list) {
        const json& event = at(from, "event");
        const json& delta = at(event, "delta");
        if (text_at(event, "type") != "content_block_delta" || text_at(delta, "type") != "text_delta") return;
        if (!at(from, "parent_tool_use_id").is_string()) list.emplace_back(partial{text_at(delta, "text")});
    }

    void note_conversation(const json& from, std::vector<news>& list) {
        const std::string id = text_at(from, "session_id");
        const std::string model = text_at(from, "type") == "system" ? text_at(from, "model") : std::string();
        if (id.empty() || (id == known_ && model.empty())) return;
        known_ = id;
        list.emplace_back(conversation{id, model});
    }

    void note_context(const json& from) {
        const json& message = at(from, "message");
        if (at(from, "parent_tool_use_id").is_string() || text_at(message, "model") == "<synthetic>") return;
        const json& usage = at(message, "usage");
        const std::uint64_t used = number_at(usage, "input_tokens") + number_at(usage, "output_tokens") +
                                   number_at(usage, "cache_read_input_tokens") +
                                   number_at(usage, "cache_creation_input_tokens");
        if (used > 0) context_ = used;
    }

    static void take_request(const json& from, std::vector<news>& list) {
        const json& request = at(from, "request");
        if (text_at(request, "subtype") != "can_use_tool") return;
        const std::string tool = text_at(request, "tool_name");
        list.emplace_back(asks{.id = text_at(from, "request_id"),
                               .tool = tool,
                               .input = json_text(at(request, "input")),
                               .is_question = tool == "AskUserQuestion"});
    }

    // It is silent otherwise while it waits, for up to three minutes.
    static void take_retry(const json& from, std::vector<news>& list) {
        const std::uint64_t status = number_at(from, "error_status");
        std::string error = text_at(from, "error");
        list.emplace_back(provider_failed{
            .status = static_cast<int>(std::min<std::uint64_t>(status, 999)),
            .text = "the model's provider failed: " + (error.empty() ? std::string("no answer") : error) +
                    (status != 0 ? " (" + std::to_string(status) + ")" : "") + "; Claude Code asks again"});
    }

    static void take_limit(const json& from, std::vector<news>& list) {
        const std::string status = text_at(from, "status");
        if (status.empty()) return;
        if (status != "rejected" || flag_at(from, "isUsingOverage")) {
            list.emplace_back(limit_reached{});
            return;
        }
        const std::string type = text_at(from, "rateLimitType");
        const char* known = type == "five_hour"          ? "5 hours"
                            : type == "seven_day"        ? "7 days"
                            : type == "seven_day_opus"   ? "7 days, Opus"
                            : type == "seven_day_sonnet" ? "7 days, Sonnet"
                                                         : nullptr;
        const std::uint64_t until = number_at(from, "resetsAt");
        constexpr std::uint64_t last_second = 253402300799; // of the year 9999
        list.emplace_back(limit_reached{
            .reason = known != nullptr ? fmt::format("limit reached ({})", known) : "limit reached",
            .until_seconds = static_cast<std::int64_t>(std::min(until, last_second))});
    }

    void take_result(const json& from, std::vector<news>& list) const {
        std::uint64_t window = 0;
        const json& models = at(from, "modelUsage");
        if (models.is_object()) {
            for (const auto& [name, each] : models.items())
                window = std::max(window, number_at(each, "contextWindow"));
        }
        list.emplace_back(
            turn_ended{.failed = flag_at(from, "is_error") || text_at(from, "subtype") != "success",
                       .context_used = context_,
                       .context_window = window});
    }

    std::string known_;
    std::uint64_t context_ = 0;
    unsigned interrupts_ = 0;
};

class claude_kind final : public kind {
public:
    [[nodiscard]] const char* name() const override { return "claude"; }
    [[nodiscard]] const char* title() const override { return "Claude Code"; }
    [[nodiscard]] capabilities can() const override { return {.approve = true, .takeover = true}; }
    [[nodiscard]] bool takes_more() const override { return true; }
    [[nodiscard]] std::unique_ptr<dialogue> converse() const override {
        return std::make_unique<claude_dialogue>();
    }
    [[nodiscard]] std::vector<std::string> arguments(const start& how) const override {
        // Without the permission tool it would deny every prompt by itself.
        std::vector<std::string> list{how.program,
                                      "-p",
                                      "--input-format",
                                      "stream-json",
                                      "--output-format",
                                      "stream-json",
                                      "--verbose",
                                      "--include-partial-messages",
                                      "--permission-prompt-tool",
                                      "stdio"};
        if (how.skip_permissions) list.emplace_back("--dangerously-skip-permissions");
        if (!how.conversation.empty()) list.insert(list.end(), {"--resume", how.conversation});
        if (!how.tools.empty())
            list.insert(list.end(),
                        {"--mcp-config", json{{"mcpServers", {{"shrooms", {{"command", how.tools}}}}}}.dump(),
                         // Looking asks nobody for anything.
                         "--allowed-tools", "mcp__shrooms__list_agents,mcp__shrooms__task_status"});
        list.insert(list.end(), {"--append-system-prompt", note_of(how)});
        list.insert(list.end(), how.more.begin(), how.more.end());
        return list;
    }
};

} // namespace

const kind& claude() {
    static const claude_kind one;
    return one;
}

} // namespace pinfold::harness
