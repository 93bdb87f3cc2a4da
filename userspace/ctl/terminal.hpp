// The owner's terminal, raw while a program has it, and as it was on every way out.
#pragma once

#include <cstdint>
#include <optional>

namespace pinfold::ctl {

struct window {
    std::uint16_t rows = 24, columns = 80;
};

// Of the terminal at standard input, output or error, the first there is.
[[nodiscard]] std::optional<window> window_size();

class raw_terminal {
public:
    // Standard input becomes raw. Throws where it is no terminal.
    raw_terminal();
    raw_terminal(const raw_terminal&) = delete;
    raw_terminal& operator=(const raw_terminal&) = delete;
    ~raw_terminal();

    void again(); // after the shell had it (SIGCONT)
};

} // namespace pinfold::ctl
