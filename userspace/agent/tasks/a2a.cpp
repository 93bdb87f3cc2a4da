#include "agent/tasks/a2a.hpp"

#include "agent/proxy/json_shape.hpp"
#include "agent/sessions/event_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

namespace pinfold {

using nlohmann::json;

namespace {

constexpr std::uint64_t largest_page = 100;

constexpr std::array methods{
    std::pair{"SendMessage", rpc_method::send},  std::pair{"SendStreamingMessage", rpc_method::stream},
    std::pair{"GetTask", rpc_method::get},       std::pair{"SubscribeToTask", rpc_method::subscribe},
    std::pair{"CancelTask", rpc_method::cancel}, std::pair{"AckTask", rpc_method::acknowledge},
    std::pair{"ListTasks", rpc_method::list},
};

const json* member(const json& of, const char* key) {
    if (!of.is_object()) return nullptr;
    const auto found = of.find(key);
    return found == of.end() || found->is_null() ? nullptr : &*found;
}

// Nothing where it is there and no string.
std::optional<std::string> text_at(const json& of, const char* key) {
    const json* found = member(of, key);
    if (found == nullptr) return std::string();
    if (!found->is_string()) return std::nullopt;
    return found->get<std::string>();
}

bool is_blank(std::string_view text) {
    return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

std::string before_colon(const std::string& id) {
    const std::size_t colon = id.find(':');
    return colon == std::string::npos ? std::string() : id.substr(0, colon);
}

// Reads into `made`; what is wrong otherwise.
class rpc_reader {
public:
    rpc_reader(rpc_request& made, std::string_view path_session) : made_(made), path_session_(path_session) {}

    std::optional<rpc_failure> message(const json& params) {
        const json* message = member(params, "message");
        if (message == nullptr || !message->is_object()) return bad("params.message: must be an object");
        const auto id = text_at(*message, "messageId"), task = text_at(*message, "taskId"),
                   role = text_at(*message, "role");
        if (!id || !is_message_id(*id))
            return bad(
                "params.message.messageId: must be 1 to 128 letters, digits or one of . _ ~ : @ + = -");
        if (!task) return bad("params.message.taskId: must be a string");
        if (!role || (!role->empty() && *role != "ROLE_USER" && *role != "user"))
            return bad("params.message.role: must be ROLE_USER");
        made_.message = *id;
        made_.task = *task;
        if (auto wrong = parts(*message)) return wrong;
        if (auto wrong = metadata(*message)) return wrong;
        return configuration(params);
    }

    std::optional<rpc_failure> task(const json& params) {
        const auto id = text_at(params, "id");
        if (!id || id->empty() || id->size() > 256) return bad("params.id: must name a task");
        made_.task = *id;
        name_session("");
        return history(params);
    }

    std::optional<rpc_failure> list(const json& params) {
        name_session("");
        const auto context = text_at(params, "contextId"), state = text_at(params, "status"),
                   page = text_at(params, "pageToken");
        if (!context || !state || !page) return bad("params: contextId, status and pageToken are strings");
        made_.context = *context;
        if (*state != "TASK_STATE_UNSPECIFIED") made_.state = *state;
        const char* const end = page->data() + page->size();
        if (!page->empty() &&
            (std::from_chars(page->data(), end, made_.page_after).ptr != end || made_.page_after <= 0))
            return bad("params.pageToken: must be the nextPageToken of a list");
        if (const json* size = member(params, "pageSize")) {
            if (!size->is_number_unsigned() || size->get<std::uint64_t>() - 1 >= largest_page)
                return bad("params.pageSize: must be 1 to 100");
            made_.page_size = size->get<std::size_t>();
        }
        return history(params);
    }

private:
    std::optional<rpc_failure> parts(const json& message) {
        const json* list = member(message, "parts");
        if (list == nullptr || !list->is_array()) return bad("params.message.parts: must be a list");
        for (const json& each : *list) {
            const json* text = member(each, "text");
            // What is left out silently would be thought to have arrived.
            if (text == nullptr || !text->is_string())
                return fail(rpc_code::only_text, "params.message.parts: this agent takes parts of text only");
            if (is_blank(text->get_ref<const std::string&>())) continue;
            made_.text += (made_.text.empty() ? "" : "\n\n") + text->get<std::string>();
        }
        if (made_.text.empty()) return bad("params.message.parts: must hold some text");
        return std::nullopt;
    }

    std::optional<rpc_failure> metadata(const json& message) {
        static const json none = json::object();
        const json* found = member(message, "metadata");
        if (found != nullptr && !found->is_object()) return bad("params.message.metadata: must be an object");
        const json& all = found == nullptr ? none : *found;
        const auto from = text_at(all, "shrooms/from"), title = text_at(all, "shrooms/title"),
                   session = text_at(all, "shrooms/session");
        if (!from || !title || !session)
            return bad(
                "params.message.metadata: shrooms/from, shrooms/title and shrooms/session are strings");
        made_.claimed_from = *from;
        made_.title = one_line(*title, longest_title);
        name_session(*session);
        return std::nullopt;
    }

    std::optional<rpc_failure> configuration(const json& params) {
        const json* found = member(params, "configuration");
        if (found == nullptr) return std::nullopt;
        if (!found->is_object()) return bad("params.configuration: must be an object");
        const json* blocking = member(*found, "blocking");
        const json* returns = member(*found, "returnImmediately"); // the later drafts' word
        for (const json* each : {blocking, returns}) {
            if (each != nullptr && !each->is_boolean())
                return bad("params.configuration: blocking and returnImmediately are true or false");
        }
        if (blocking != nullptr) made_.blocking = blocking->get<bool>();
        if (returns != nullptr) made_.blocking = made_.blocking.value_or(false) || !returns->get<bool>();
        return history(*found);
    }

    std::optional<rpc_failure> history(const json& of) {
        const json* length = member(of, "historyLength");
        if (length == nullptr) return std::nullopt;
        if (!length->is_number_unsigned()) return bad("historyLength: must be a number of messages");
        made_.history = length->get<std::size_t>();
        return std::nullopt;
    }

    void name_session(const std::string& named) {
        made_.session = !path_session_.empty() ? std::string(path_session_)
                        : !named.empty()       ? named
                                               : before_colon(made_.task);
    }

    [[nodiscard]] rpc_failure fail(int code, std::string text) const {
        return {.id = made_.id, .code = code, .text = std::move(text)};
    }
    [[nodiscard]] rpc_failure bad(std::string text) const {
        return fail(rpc_code::bad_params, std::move(text));
    }

    rpc_request& made_;
    std::string_view path_session_;
};

std::string dumped(const json& from) {
    return from.dump(-1, ' ', false, json::error_handler_t::replace);
}

} // namespace

bool is_message_id(std::string_view text) noexcept {
    constexpr std::string_view marks = "._~:@+=-";
    return !text.empty() && text.size() <= longest_message_id && std::ranges::all_of(text, [marks](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               marks.find(c) != std::string_view::npos;
    });
}

std::string one_line(std::string_view text, std::size_t characters) {
    std::string line;
    for (const char c : text) {
        const bool is_gap = static_cast<unsigned char>(c) <= 0x20 || c == 0x7f;
        if (!is_gap)
            line += c;
        else if (!line.empty() && !line.ends_with(' '))
            line += ' ';
    }
    while (line.ends_with(' ')) line.pop_back();
    return cut(line, characters);
}

std::expected<rpc_request, rpc_failure> read_rpc(std::string_view body, std::string_view path_session) {
    json whole;
    if (const auto wrong = read_json_strictly(body, whole))
        return std::unexpected(rpc_failure{.code = rpc_code::no_json, .text = "the body: " + *wrong});
    const auto refuse = [](std::string text) {
        return std::unexpected(rpc_failure{.code = rpc_code::no_request, .text = std::move(text)});
    };
    if (!whole.is_object()) return refuse("one JSON-RPC 2.0 request is expected, as an object");
    rpc_request made;
    if (const json* id = member(whole, "id")) {
        if (!id->is_string() && !id->is_number()) return refuse("id: must be a string or a number");
        made.id = dumped(*id);
    }
    if (text_at(whole, "jsonrpc").value_or("") != "2.0") {
        auto failed = refuse("jsonrpc: must be \"2.0\"");
        failed.error().id = made.id;
        return failed;
    }
    const std::string method = text_at(whole, "method").value_or("");
    const auto* const known = std::ranges::find_if(methods,
                                                   [&](const auto& each) { return method == each.first; });
    if (known == methods.end())
        return std::unexpected(rpc_failure{
            .id = made.id,
            .code = rpc_code::no_method,
            .text = "there is SendMessage, SendStreamingMessage, GetTask, SubscribeToTask, CancelTask, "
                    "AckTask and ListTasks here"});
    made.method = known->second;
    const json* params = member(whole, "params");
    static const json none = json::object();
    if (params == nullptr) params = &none;
    rpc_reader reader(made, path_session);
    std::optional<rpc_failure> wrong;
    if (!params->is_object())
        wrong = rpc_failure{.id = made.id, .code = rpc_code::bad_params, .text = "params: must be an object"};
    else if (made.method == rpc_method::send || made.method == rpc_method::stream)
        wrong = reader.message(*params);
    else if (made.method == rpc_method::list)
        wrong = reader.list(*params);
    else
        wrong = reader.task(*params);
    if (wrong) return std::unexpected(std::move(*wrong));
    return made;
}

std::string rpc_reply(std::string_view id, std::string_view result) {
    return fmt::format(R"({{"jsonrpc":"2.0","id":{},"result":{}}})", id, result);
}

std::string rpc_reply(const rpc_failure& failure) {
    return fmt::format(R"({{"jsonrpc":"2.0","id":{},"error":{}}})", failure.id,
                       dumped({{"code", failure.code}, {"message", failure.text}}));
}

} // namespace pinfold
