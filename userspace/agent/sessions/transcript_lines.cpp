#include "agent/sessions/transcript_lines.hpp"

#include "agent/harness/json_text.hpp"

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <vector>

namespace pinfold {

namespace {

using nlohmann::json;

bool flag(const json& in, const char* key) {
    const auto found = in.find(key);
    return found != in.end() && found->is_boolean() && found->get<bool>();
}

std::string text_at(const json& in, const char* key) {
    const auto found = in.find(key);
    return found != in.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Claude Code's own lines stand among those of people: commands, their output, summaries, and its helpers' talk.
bool is_peoples(const json& entry) {
    return !flag(entry, "isMeta") && !flag(entry, "isSidechain") && !flag(entry, "isCompactSummary") &&
           !flag(entry, "isApiErrorMessage");
}

bool is_command(std::string_view text) {
    for (const char* each : {"<command-", "<local-command-", "<bash-", "<system-reminder>"}) {
        if (text.starts_with(each)) return true;
    }
    return false;
}

} // namespace

transcript_lines::transcript_lines(const std::filesystem::path& file, std::string before, std::size_t most,
                                   filter wanted)
    : file_(::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)),
      before_(std::move(before)),
      most_(most),
      wanted_(std::move(wanted)) {
    struct stat seen{};
    ended_ = !file_ || ::fstat(file_.get(), &seen) != 0 || !S_ISREG(seen.st_mode) || most == 0;
}

bool transcript_lines::read_more() {
    if (ended_) return false;
    std::vector<char> buffer(piece);
    const ssize_t got = ::read(file_.get(), buffer.data(), buffer.size());
    if (got <= 0) {
        ended_ = true;
        return false;
    }
    read_ += static_cast<std::uint64_t>(got);
    splitter_.put({buffer.data(), static_cast<std::size_t>(got)},
                  [this](std::string_view line) { take(line); });
    ended_ = ended_ || read_ >= most_bytes;
    return !ended_;
}

void transcript_lines::take(std::string_view line) {
    if (ended_) return;
    const bool may_speak = line.find("\"user\"") != std::string_view::npos ||
                           line.find("\"assistant\"") != std::string_view::npos;
    if (!may_speak) return; // most lines are results of tools, and not parsed
    const json entry = harness::parse_line(line);
    if (!entry.is_object() || !is_peoples(entry)) return;
    const std::string type = text_at(entry, "type");
    if (type != "user" && type != "assistant") return;
    spoken_line said{.time = text_at(entry, "timestamp"), .role = type};
    if (said.time.size() < 20) return;
    if (said.time >= before_) { // it is written in the order of time
        ended_ = true;
        return;
    }
    const auto message = entry.find("message");
    if (message == entry.end() || !message->is_object()) return;
    said.text = content_text(message->value("content", json()));
    if (said.text.empty() || is_command(said.text)) return;
    if (wanted_ && !wanted_(said)) return;
    lines_.push_back(std::move(said));
    if (lines_.size() > most_) lines_.pop_front();
}

} // namespace pinfold
