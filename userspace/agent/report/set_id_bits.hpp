// Takes the set-user-ID and set-group-ID bits off what a session left in its project: outside a cage they are real
// (docs/decisions/010-setuid-in-projects.md).
#pragma once

#include "agent/report/scan.hpp"

#include <optional>
#include <set>
#include <utility>

namespace pinfold::report {

struct set_id_limits {
    std::size_t entries = 500'000, depth = 256;
    std::size_t told = 1000; // files that are named
};

struct set_id_file {
    std::string path, mode; // lines that can be shown
    std::string trouble;    // why it keeps the bit; empty = it has none any more
};

class set_id_bits {
public:
    // A file that `before` names with its bits, and that is unchanged since, keeps them; null = none does. Throws
    // std::system_error where the project is not to be opened.
    set_id_bits(const std::filesystem::path& project, const picture* before, set_id_limits within = {});
    set_id_bits(const set_id_bits&) = delete;
    set_id_bits& operator=(const set_id_bits&) = delete;
    ~set_id_bits();

    bool step(); // one entry; false = done
    [[nodiscard]] std::vector<set_id_file> take() { return std::move(found_); }
    [[nodiscard]] bool is_complete() const noexcept { return is_complete_; }

private:
    struct level {
        unique_fd folder;
        std::string path; // with a slash behind it
        std::vector<std::string> names;
        std::optional<mode_t> closed; // the mode that it gets back
        std::size_t next = 0;
    };
    void enter(unique_fd folder, std::string path, std::optional<mode_t> closed);
    void leave() noexcept;
    void look_at(const level& in, const std::string& name);
    void look_into(const level& in, const std::string& name);
    void take_off(const level& in, const std::string& name);

    set_id_limits within_;
    std::set<std::pair<std::string, std::string>> known_; // path, mark
    std::vector<level> levels_;
    std::vector<set_id_file> found_;
    std::size_t entries_ = 0;
    bool is_complete_ = true;
};

} // namespace pinfold::report
