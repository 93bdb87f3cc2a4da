// What the keeper knows of a cage, on disk from before its first step is taken: what a killed keeper left is found,
// and nothing else is ever removed.
#pragma once

#include "base/unique_fd.hpp"
#include "wire/messages.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace pinfold {

// A folder of records, one file each, replaced whole.
class records {
public:
    explicit records(const std::filesystem::path& folder);

    void write(const std::string& name, const wire::cage_state& state) const;
    void remove(const std::string& name) const;
    // Nothing for one that is not there or cannot be understood (it is logged).
    [[nodiscard]] std::optional<wire::cage_state> read(const std::string& name) const;
    [[nodiscard]] std::vector<std::string> names() const;

private:
    unique_fd folder_;
    std::filesystem::path path_;
};

// The files of a cage that are kept after its end: one folder a name, below one folder an owner.
class kept_files {
public:
    explicit kept_files(const std::filesystem::path& folder);

    struct entry {
        wire::cage_state state;
        unique_fd directory;
    };
    // Opens the folder of this name, or makes it; its record says which ids own it.
    [[nodiscard]] unique_fd make(const wire::cage_state& state) const;
    [[nodiscard]] std::optional<wire::cage_state> find(std::uint32_t owner, const std::string& name) const;
    // False when something could not be removed.
    bool remove(std::uint32_t owner, const std::string& name) const;
    [[nodiscard]] std::vector<wire::cage_state> all() const;

private:
    unique_fd folder_;
};

} // namespace pinfold
