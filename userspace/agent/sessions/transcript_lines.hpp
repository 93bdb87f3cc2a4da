// What was said in a conversation before a session took it over, from the transcript that Claude Code keeps of it.
#pragma once

#include "agent/sessions/event_text.hpp"
#include "base/unique_fd.hpp"

#include <deque>
#include <filesystem>
#include <functional>

namespace pinfold {

// A transcript is read from its beginning, a piece at a time so that others have turns; of the lines the last ones before
// `before` that are wanted are kept, at most `most`. Whoever was in a cage with the file may have written anything into it.
class transcript_lines {
public:
    static constexpr std::size_t piece = std::size_t{256} << 10, longest_line = std::size_t{1} << 20;
    static constexpr std::uint64_t most_bytes = std::uint64_t{64} << 20;

    using filter = std::function<bool(const spoken_line&)>;

    // Nothing is read where this is no regular file. Without `wanted` every line is.
    transcript_lines(const std::filesystem::path& file, std::string before, std::size_t most,
                     filter wanted = {});

    // Reads one more piece; false when there is nothing more to read.
    bool read_more();
    [[nodiscard]] const std::deque<spoken_line>& lines() const noexcept { return lines_; } // oldest first

private:
    void take(std::string_view line);

    unique_fd file_;
    std::string before_;
    std::size_t most_;
    filter wanted_;
    std::uint64_t read_ = 0;
    harness::line_splitter splitter_{longest_line};
    std::deque<spoken_line> lines_;
    bool ended_ = false;
};

} // namespace pinfold
