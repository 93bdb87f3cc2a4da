// pi in its RPC mode, told as Claude Code's stream-json so that whoever reads one harness reads both.
#include "agent/harness/json_text.hpp"
#include "agent/harness/kinds.hpp"

namespace pinfold::harness {

namespace {

constexpr const char* state_request = "pinfold-state";
constexpr const char* prompt_request = "pinfold-prompt";

json text_block(std::string text) {
    return {{"type", "text"}, {"text", std::move(text)}};
}

json assistant(json content) {
    return {{"type", "assistant"}, {"message", {{"role", "assistant"}, {"content", std::move(content)}}}};
}

// pi's content blocks by Claude Code's names.
json blocks_of(const json& content) {
    json list = json::array();
    if (content.is_string()) list.push_back(text_block(content.get<std::string>()));
    if (!content.is_array()) return list;
    for (const json& each : content) {
        const std::string type = text_at(each, "type");
        if (type == "text") list.push_back(text_block(text_at(each, "text")));
        if (type == "thinking")
            list.push_back({{"type", "thinking"}, {"thinking", text_at(each, "thinking")}});
        if (type == "toolCall")
            list.push_back({{"type", "tool_use"},
                            {"id", text_at(each, "id")},
                            {"name", text_at(each, "name")},
                            {"input", at(each, "arguments")}});
    }
    return list;
}

class pi_dialogue final : public dialogue {
public:
    [[nodiscard]] std::string opening() override {
        return line_of({{"id", state_request}, {"type", "get_state"}});
    }

    [[nodiscard]] std::vector<news> take(std::string_view line) override {
        std::vector<news> list;
        const json from = parse_line(line);
        const std::string type = text_at(from, "type");
        if (type == "response")
            take_response(from, list);
        else if (type == "agent_start")
            list.emplace_back(turn_began{});
        else if (type == "message_update")
            take_update(from, list);
        else if (type == "message_end")
            take_message(at(from, "message"), list);
        else if (type == "agent_end")
            end_turn(list);
        else if (type == "extension_ui_request")
            take_dialog(from, list);
        else if (type == "auto_retry_start")
            list.emplace_back(provider_failed{
                .text = "the model's provider failed: " + text_at(from, "errorMessage") + "; pi asks again"});
        return list;
    }

    [[nodiscard]] std::string message(std::string_view text) override {
        return line_of({{"id", prompt_request},
                        {"type", "prompt"},
                        {"message", text},
                        {"streamingBehavior", "followUp"}});
    }

    [[nodiscard]] std::optional<std::string> reply(const asks& to, const answer& what) override {
        json response{{"type", "extension_ui_response"},
                      {"id", to.id.substr(std::string_view("ui-").size())}};
        if (!what.allow)
            response["cancelled"] = true;
        else if (to.tool == "confirm")
            response["confirmed"] = what.answers.empty() || what.answers.begin()->second != "No";
        else if (what.answers.empty())
            return std::nullopt;
        else
            response["value"] = what.answers.begin()->second;
        return line_of(response);
    }

    [[nodiscard]] std::optional<std::string> interrupt() override { return line_of({{"type", "abort"}}); }

private:
    void take_response(const json& from, std::vector<news>& list) {
        const std::string id = text_at(from, "id");
        if (id == state_request) {
            const json& data = at(from, "data");
            const json& model = at(data, "model");
            window_ = number_at(model, "contextWindow");
            const std::string name = text_at(model, "provider") + "/" + text_at(model, "id");
            // The file, where it has one: by an id pi looks in its own folder of sessions only.
            std::string known = text_at(data, "sessionFile");
            if (known.empty()) known = text_at(data, "sessionId");
            list.emplace_back(conversation{known, model.is_object() ? name : std::string()});
            list.emplace_back(said{.json = json_text({{"type", "system"},
                                                      {"subtype", "init"},
                                                      {"session_id", text_at(data, "sessionId")},
                                                      {"model", name}})});
        } else if (id == prompt_request && !flag_at(from, "success")) {
            failed_ = true;
            list.emplace_back(
                said{.json = json_text(assistant(json::array({text_block(text_at(from, "error"))})))});
            end_turn(list);
        }
    }

    static void take_update(const json& from, std::vector<news>& list) {
        const json& event = at(from, "assistantMessageEvent");
        if (text_at(event, "type") == "text_delta") list.emplace_back(partial{text_at(event, "delta")});
    }

    void take_message(const json& message, std::vector<news>& list) {
        const std::string role = text_at(message, "role");
        if (role == "assistant") {
            const json& usage = at(message, "usage");
            in_ += number_at(usage, "input");
            out_ += number_at(usage, "output");
            const std::uint64_t total = number_at(usage, "totalTokens");
            if (total > 0) context_ = total;
            const std::string stop = text_at(message, "stopReason");
            failed_ = stop == "error" || stop == "aborted";
            json content = blocks_of(at(message, "content"));
            if (failed_ && !text_at(message, "errorMessage").empty())
                content.push_back(text_block(text_at(message, "errorMessage")));
            if (content.empty()) return;
            std::string text = spoken_text(content);
            list.emplace_back(
                said{.json = json_text(assistant(std::move(content))), .text = std::move(text)});
        } else if (role == "toolResult") {
            json result{{"type", "tool_result"},
                        {"tool_use_id", text_at(message, "toolCallId")},
                        {"is_error", flag_at(message, "isError")},
                        {"content", blocks_of(at(message, "content"))}};
            list.emplace_back(
                said{.json = json_text(
                         {{"type", "user"},
                          {"message", {{"role", "user"}, {"content", json::array({std::move(result)})}}}})});
        }
    }

    void end_turn(std::vector<news>& list) {
        list.emplace_back(
            said{.json = json_text({{"type", "result"},
                                    {"subtype", failed_ ? "error_during_execution" : "success"},
                                    {"is_error", failed_},
                                    {"usage", {{"input_tokens", in_}, {"output_tokens", out_}}}})});
        list.emplace_back(turn_ended{.failed = failed_, .context_used = context_, .context_window = window_});
        failed_ = false;
        in_ = out_ = 0;
    }

    static void take_dialog(const json& from, std::vector<news>& list) {
        const std::string method = text_at(from, "method");
        if (method != "select" && method != "confirm" && method != "input" && method != "editor") return;
        json options = json::array();
        if (at(from, "options").is_array()) {
            for (const json& each : at(from, "options"))
                if (each.is_string()) options.push_back({{"label", each}});
        }
        if (method == "confirm") options = json::array({{{"label", "Yes"}}, {{"label", "No"}}});
        std::string question = text_at(from, "title");
        if (!text_at(from, "message").empty()) question += "\n" + text_at(from, "message");
        const json input{{"questions", json::array({{{"question", question}, {"options", options}}})}};
        const std::string id = "ui-" + text_at(from, "id");
        list.emplace_back(
            said{.json = json_text(
                     {{"type", "control_request"},
                      {"request_id", id},
                      {"request",
                       {{"subtype", "can_use_tool"}, {"tool_name", "AskUserQuestion"}, {"input", input}}}})});
        list.emplace_back(asks{.id = id, .tool = method, .input = json_text(input), .is_question = true});
    }

    std::uint64_t window_ = 0, context_ = 0, in_ = 0, out_ = 0;
    bool failed_ = false;
};

class pi_kind final : public kind {
public:
    [[nodiscard]] const char* name() const override { return "pi"; }
    [[nodiscard]] const char* title() const override { return "pi"; }
    [[nodiscard]] capabilities can() const override { return {}; }
    [[nodiscard]] bool takes_more() const override { return true; }
    [[nodiscard]] std::unique_ptr<dialogue> converse() const override {
        return std::make_unique<pi_dialogue>();
    }
    [[nodiscard]] std::vector<std::string> arguments(const start& how) const override {
        std::vector<std::string> list{how.program, "--mode", "rpc"};
        list.insert(list.end(), how.more.begin(), how.more.end());
        if (!how.conversation.empty()) list.insert(list.end(), {"--session", how.conversation});
        list.insert(list.end(), {"--append-system-prompt", note_of(how)});
        return list;
    }
};

} // namespace

const kind& pi() {
    static const pi_kind one;
    return one;
}

} // namespace pinfold::harness
