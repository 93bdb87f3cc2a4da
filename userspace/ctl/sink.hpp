// One of our own output streams, written without ever blocking: a reader that is slow must not hold up Ctrl-C.
#pragma once

#include "base/unique_fd.hpp"

#include <string>
#include <string_view>

namespace pinfold::ctl {

class sink {
public:
    explicit sink(int fd);

    // Writes what can be written now and keeps the rest.
    void put(std::string_view bytes);
    void flush();
    [[nodiscard]] bool empty() const noexcept { return held_.empty(); }
    [[nodiscard]] bool broken() const noexcept { return broken_; } // nobody reads it any more
    [[nodiscard]] int fd() const noexcept { return own_ ? own_.get() : fd_; }

private:
    std::size_t write_some(std::string_view bytes);

    int fd_;
    unique_fd own_; // the same pipe or terminal, opened again: O_NONBLOCK on fd_ itself would be everybody's
    std::string held_;
    bool socket_ = false, file_ = false, broken_ = false;
};

} // namespace pinfold::ctl
