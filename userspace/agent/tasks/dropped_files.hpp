// Files from other agents, in a folder of their sender's among the uploads of a session. No link is ever followed.
#pragma once

#include "base/unique_fd.hpp"
#include "ring/uring.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace pinfold {

inline constexpr std::uint64_t largest_dropped = std::uint64_t{100} << 20;   // one file
inline constexpr std::uint64_t largest_drop_folder = std::uint64_t{1} << 30; // all of one sender's

struct dropped_file {
    std::string from; // MACHINE/SESSION
    std::string name;
    std::string path;
    std::uint64_t size = 0;
    std::int64_t time = 0; // Unix seconds
};

// What is left of a name that somebody else chose: a plain one, of one folder.
[[nodiscard]] std::string plain_file_name(std::string_view from);
// "MACHINE/SESSION" as the name of a folder, and back; two senders never share one. Back: empty = it is none.
[[nodiscard]] std::string sender_folder(std::string_view sender);
[[nodiscard]] std::string folder_sender(std::string_view folder);

class dropped_files {
public:
    // `state`: the agent's own directory, `uploads`: the session's below it.
    dropped_files(std::filesystem::path state, std::filesystem::path uploads);

    // Numbered where the name is taken. Throws session_refusal (400) over the limits, and what keeps it from writing;
    // nothing of the file is left then. `bytes` must live until it returns.
    task<dropped_file> keep(uring& ring, std::string sender, std::string name, std::string_view bytes) const;
    [[nodiscard]] std::vector<dropped_file> list() const; // newest first
    [[nodiscard]] bool remove(const std::string& sender, const std::string& name) const;

private:
    [[nodiscard]] unique_fd open(bool make, const std::string& folder) const; // empty where there is none
    void read_folder(const std::string& folder, std::vector<dropped_file>& into) const;

    std::filesystem::path state_, uploads_;
};

} // namespace pinfold
