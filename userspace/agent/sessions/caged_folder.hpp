// A folder of the owner's that somebody in a cage writes to: whatever lies in it may be a trap for who comes back to it.
#pragma once

#include "base/unique_fd.hpp"

#include <filesystem>
#include <string>

namespace pinfold {

class caged_folder {
public:
    // `root` itself is the agent's and made where absent. Throws.
    explicit caged_folder(const std::filesystem::path& root);

    // Below it, step by step: what is no folder (a link that leads out, a FIFO that would hold us) is removed and made
    // anew. `below` is relative, without "..".
    [[nodiscard]] unique_fd make_folder(const std::filesystem::path& below) const;
    // An empty file where there is none, of the same kind of care.
    void make_file(const std::filesystem::path& below) const;
    // A copy of this regular file; false = it was none. What lies there already stays.
    bool take_in(const std::filesystem::path& from, const std::filesystem::path& below) const;

private:
    std::filesystem::path root_;
    unique_fd folder_;
};

// Copies a regular file with one name into `folder`/`name`: a new file first, which then takes the place of what is
// there, where `replace` says so. False = `source` was none.
bool copy_into(const unique_fd& source, const unique_fd& folder, const std::string& name, bool replace);

} // namespace pinfold
