// A session's events on a terminal: text as it streams, what its tools do, and what it waits for.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace pinfold::ctl {

class event_printer {
public:
    event_printer(std::string session, bool as_json) : session_(std::move(session)), as_json_(as_json) {}

    // Called with each event that is kept, after it was shown; false ends the reading.
    std::function<bool(const nlohmann::json&)> seen;

    // Bytes of the stream as they come. False: enough.
    bool put(std::string_view bytes);

private:
    bool take(const std::string& block);
    void show(const nlohmann::json& event);
    void show_claude(const nlohmann::json& data);
    void show_question(const nlohmann::json& data);
    void end_line();

    std::string session_;
    std::string held_;
    bool as_json_;
    bool in_partial_ = false; // its text was shown while it came: the whole message is not shown again
    bool open_line_ = false;
};

// What a permission or a question is about, and the two commands that answer it.
void print_question(const std::string& session, const std::string& id, const std::string& tool,
                    const nlohmann::json& input);

// Text of others for a terminal: lines stay, what steers a terminal does not.
[[nodiscard]] std::string printable_lines(std::string_view text);

} // namespace pinfold::ctl
