// Everything in a project that could run later, outside the cage that wrote it: read as bytes, one entry at a time.
#pragma once

#include "base/unique_fd.hpp"

#include <compare>
#include <cstdint>
#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <vector>

namespace pinfold::report {

struct limits {
    std::size_t entries = 50'000, items = 20'000;
    std::size_t depth = 64;
    std::size_t read = std::size_t{1} << 20; // bytes of one file that are looked at
};

// One thing. Its texts are lines that can be shown: the cage's bytes are escaped.
struct item {
    std::string path, kind, what; // they name it
    std::string mark;             // by which a change is seen: a hash, a target, a mode
    std::string why;
    std::vector<std::string> details;
};

// A program is worth telling of only where it was not there before, or was another.
inline constexpr const char* program_kind = "program";
inline constexpr const char* set_id_kind = "setuid";

// The mark of a file by the kernel's own time of its last change: a program can set every other.
[[nodiscard]] std::string stamp_of(const struct stat& seen);
[[nodiscard]] std::string mode_text(const struct stat& seen); // "mode 4755"

struct picture {
    std::vector<item> items;
    std::size_t entries = 0;
    bool is_complete = true; // false: a limit ended it, or a folder could not be read
};

class scan {
public:
    // Throws std::system_error where the project is not to be opened.
    scan(std::filesystem::path project, limits within = {});

    bool step(); // one entry; false = done
    [[nodiscard]] picture take() { return std::move(seen_); }

private:
    struct level {
        unique_fd folder;
        std::string path; // with a slash behind it
        std::vector<std::string> names;
        bool in_git = false, is_git = false, is_hooks = false;
        std::size_t next = 0;
    };
    void enter(unique_fd folder, std::string path, bool in_git, bool is_hooks);
    void look_at(const level& in, const std::string& name);
    void look_at_link(const level& in, const std::string& name);
    void look_at_file(const level& in, const std::string& name, const unique_fd& place,
                      const struct stat& seen);
    void look_at_mode(const std::string& path, const unique_fd& place, const struct stat& seen);
    void look_into(const level& in, const std::string& name, const unique_fd& file, const struct stat& seen);
    void look_at_git_file(const level& in, const std::string& name, const std::string& text,
                          const std::string& mark);
    void read_settings(const std::string& path, const std::string& text);
    void read_included(const std::string& path, const std::string& from);
    void read_todo(const std::string& path, const std::string& text, const std::string& mark);
    void read_attributes(const std::string& path, const std::string& text);
    void add(const std::string& path, std::string kind, const std::string& what, const std::string& mark,
             std::string why, std::vector<std::string> details = {});

    std::filesystem::path project_;
    limits within_;
    unique_fd root_;
    std::vector<level> levels_;
    picture seen_;
};

} // namespace pinfold::report
