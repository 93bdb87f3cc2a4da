#include "ctl/session_events.hpp"

#include "ctl/output.hpp"
#include "ctl/units.hpp"

#include <cstdio>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

namespace pinfold::ctl {

using nlohmann::json;

namespace {

std::string text_at(const json& in, const char* key) {
    if (!in.is_object()) return {};
    const auto found = in.find(key);
    return found != in.end() && found->is_string() ? found->get<std::string>() : std::string();
}

json at(const json& in, const char* key) {
    return in.is_object() ? in.value(key, json()) : json();
}

std::string short_json(const json& what) {
    std::string text = what.dump(-1, ' ', false, json::error_handler_t::replace);
    constexpr std::size_t longest = 300;
    if (text.size() > longest) text = text.substr(0, longest) + "…";
    return printable(text);
}

} // namespace

std::string printable_lines(std::string_view text) {
    std::string clean;
    while (!text.empty()) {
        const std::size_t end = text.find_first_of("\n\t");
        clean += printable(text.substr(0, end));
        if (end == std::string_view::npos) break;
        clean += text[end];
        text.remove_prefix(end + 1);
    }
    return clean;
}

void print_question(const std::string& session, const std::string& id, const std::string& tool,
                    const json& input) {
    fmt::print("{} {} {}\n", paint(stdout, colour::yellow, "waits for you:"), printable(tool),
               short_json(input));
    if (tool == "AskUserQuestion")
        fmt::print("  answer with: pinfold approve {} {} --answer TEXT\n", session, printable(id));
    else
        fmt::print("  answer with: pinfold approve {} {}, or pinfold deny {} {}\n", session, printable(id),
                   session, printable(id));
}

bool event_printer::put(std::string_view bytes) {
    held_ += bytes;
    bool more = true;
    for (std::size_t end = 0; more && (end = held_.find("\n\n")) != std::string::npos;) {
        const std::string block = held_.substr(0, end);
        held_.erase(0, end + 2);
        more = take(block);
    }
    std::fflush(stdout);
    return more && std::ferror(stdout) == 0;
}

bool event_printer::take(const std::string& block) {
    const std::size_t at_data = block.find("data: ");
    if (at_data == std::string::npos) return true; // a comment that keeps the connection alive
    const json event = json::parse(block.substr(at_data + 6), nullptr, false);
    if (!event.is_object()) return true;
    const bool kept = text_at(event, "kind") != "partial";
    if (as_json_) {
        if (kept) fmt::print("{}\n", event.dump(-1, ' ', false, json::error_handler_t::replace));
    } else {
        show(event);
    }
    return !kept || !seen || seen(event);
}

void event_printer::end_line() {
    if (open_line_) fmt::print("\n");
    open_line_ = false;
}

void event_printer::show(const json& event) {
    const std::string kind = text_at(event, "kind");
    const json data = at(event, "data");
    if (kind == "partial") {
        in_partial_ = open_line_ = true;
        fmt::print("{}", printable_lines(text_at(data, "text")));
        return;
    }
    if (kind == "claude") return show_claude(data);
    end_line();
    if (kind == "message") {
        const std::string by = text_at(event, "by");
        fmt::print("{} {}\n", paint(stdout, colour::bold, by.empty() ? ">" : printable(by) + " >"),
                   printable_lines(text_at(data, "text")));
    } else if (kind == "stopped") {
        fmt::print("{}\n", paint(stdout, colour::dim,
                                 "(its program ended: " + printable(text_at(data, "reason")) + ")"));
    } else if (kind == "provider-error") {
        fmt::print("{}\n", paint(stdout, colour::yellow, printable(text_at(data, "message"))));
    } else if (kind == "provider-ok") {
        fmt::print("{}\n", paint(stdout, colour::dim, "(the model's provider answers again)"));
    } else {
        fmt::print("{}\n", paint(stdout, colour::dim, "(" + printable(kind) + " " + short_json(data) + ")"));
    }
}

void event_printer::show_claude(const json& data) {
    const std::string type = text_at(data, "type");
    if (type == "assistant") {
        const bool shown_already = std::exchange(in_partial_, false);
        end_line();
        for (const json& block : at(at(data, "message"), "content")) {
            if (text_at(block, "type") == "text" && !shown_already)
                fmt::print("{}\n", printable_lines(text_at(block, "text")));
            if (text_at(block, "type") == "tool_use")
                fmt::print("{}\n", paint(stdout, colour::dim,
                                         "· " + printable(text_at(block, "name")) + " " +
                                             short_json(at(block, "input"))));
        }
    } else if (type == "control_request") {
        end_line();
        show_question(data);
    } else if (type == "result") {
        end_line();
        if (at(data, "is_error") == true)
            fmt::print("{}\n", paint(stdout, colour::red,
                                     "the turn failed: " + printable(text_at(data, "subtype")) + " " +
                                         printable_lines(text_at(data, "result"))));
    }
}

void event_printer::show_question(const json& data) {
    const json request = at(data, "request");
    if (text_at(request, "subtype") == "can_use_tool")
        print_question(session_, text_at(data, "request_id"), text_at(request, "tool_name"),
                       at(request, "input"));
}

} // namespace pinfold::ctl
