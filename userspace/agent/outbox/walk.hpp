// What lies in an outbox, one entry at a time: its sealed session wrote it, and may be writing still.
#pragma once

#include "base/unique_fd.hpp"

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <sys/stat.h>
#include <vector>

namespace pinfold::outbox {

inline constexpr const char* notice_name =
    "README-UNTRUSTED.txt"; // ours; of what is called so nothing is taken
[[nodiscard]] const char* notice_text() noexcept;

struct limits {
    std::size_t files = 2000;
    std::uint64_t bytes = std::uint64_t{100} << 20;
    std::size_t depth = 32;       // folders in one another
    std::size_t entries = 20'000; // looked at in all; a million links would cost hours
    std::size_t told = 1000;      // left out, and named; the rest is counted
};

// Why something is left out, as receivers know it.
namespace reason {
inline constexpr const char *link = "a link: never followed", *no_file = "not a file",
                            *files = "over the file limit", *bytes = "over the size limit",
                            *depth = "too deep", *changed = "changed while packing",
                            *unopened = "not opened as a file", *no_folder = "not opened as a folder",
                            *names = "a file with more than one name";
}

struct left_out {
    std::string name; // as it is: not fit for a terminal
    std::string why;
};

struct found {
    std::string name; // below the outbox
    unique_fd file;   // open for reading
    struct stat seen{};
};

struct selection {
    std::string only; // a folder below it; empty = all
    std::int64_t since_ns =
        std::numeric_limits<std::int64_t>::min(); // changed after this, by the file's own word
};

class walk {
public:
    // Throws: std::system_error where the folder is not to be opened, failure where `only` is none below it.
    walk(const std::filesystem::path& outbox, selection what, limits within);

    // Looks at one entry. False = there are no more.
    bool step();
    // The file that the last step found.
    [[nodiscard]] std::optional<found> take();

    [[nodiscard]] const std::vector<left_out>& left() const noexcept { return left_; }
    [[nodiscard]] std::uint64_t untold() const noexcept { return untold_; } // left out beside them
    void leave_out(std::string name, const char* why);
    void take_back(const found& what); // it was not packed: it counts no more

private:
    struct level {
        unique_fd folder;
        std::string path; // with a slash behind it; empty = the outbox
        std::vector<std::string> names;
        std::size_t next = 0;
    };
    void enter(unique_fd folder, std::string path);
    void look_at(const level& in, const std::string& name);
    void look_at_file(const unique_fd& place, std::string path, const struct stat& seen);

    selection what_;
    limits within_;
    std::vector<level> levels_;
    std::optional<found> found_;
    std::vector<left_out> left_;
    std::uint64_t untold_ = 0, bytes_ = 0;
    std::size_t files_ = 0, entries_ = 0;
};

} // namespace pinfold::outbox
