// Tokens and errors, read from an answer as it passes: the provider's own count and words, in its events or its JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pinfold {

class usage_counter {
public:
    void begin(std::string_view content_type);
    void put(std::string_view bytes); // looked at, never changed
    void end();

    [[nodiscard]] std::uint64_t tokens_in() const noexcept { return in_; }
    [[nodiscard]] std::uint64_t tokens_out() const noexcept { return out_; }
    // What it says went wrong; empty = nothing.
    [[nodiscard]] const std::string& error() const noexcept { return error_; }

private:
    static constexpr std::size_t most_held = std::size_t{1} << 20;
    void read(std::string_view text);

    std::string held_, error_;
    std::uint64_t in_ = 0, out_ = 0;
    bool events_ = false, body_ = false, skipping_ = false;
};

} // namespace pinfold
