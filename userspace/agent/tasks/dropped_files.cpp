#include "agent/tasks/dropped_files.hpp"

#include "agent/sessions/options.hpp"

#include <algorithm>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>

namespace pinfold {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view prefix = "from-";
constexpr int most_numbers = 1000;
constexpr std::size_t longest_name = 150, piece = std::size_t{1} << 20;

bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

std::string numbered(const std::string& name, int number) {
    if (number == 0) return name;
    const std::size_t dot = name.rfind('.');
    const std::size_t stem = dot == std::string::npos || dot == 0 ? name.size() : dot;
    return fmt::format("{}-{}{}", name.substr(0, stem), number, name.substr(stem));
}

// The names in a directory, without those that begin with a dot.
std::vector<std::string> names_in(const unique_fd& directory) {
    std::vector<std::string> names;
    unique_fd again(::openat(directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(again ? ::fdopendir(again.get()) : nullptr, &::closedir);
    if (!stream) return names;
    std::ignore = again.release(); // the stream owns it now
    while (const dirent* entry = ::readdir(stream.get())) {
        if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
    }
    return names;
}

// Bytes of the plain files there.
std::uint64_t bytes_in(const unique_fd& directory) {
    std::uint64_t all = 0;
    for (const std::string& name : names_in(directory)) {
        struct stat what{};
        if (::fstatat(directory.get(), name.c_str(), &what, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(what.st_mode))
            all += static_cast<std::uint64_t>(what.st_size);
    }
    return all;
}

} // namespace

std::string plain_file_name(std::string_view from) {
    std::string name;
    for (const char c : from.substr(from.rfind('/') + 1)) {
        if (is_word(c) || c == '.' || c == '-' || c == '_')
            name += c;
        else if (!name.ends_with('_'))
            name += '_';
    }
    const std::size_t begin = name.find_first_not_of("._"), end = name.find_last_not_of("._");
    if (begin == std::string::npos) return "file";
    return name.substr(begin, std::min(end - begin + 1, longest_name));
}

// A '_' of a machine's name is encoded, so that the first one in the folder's is what stands for the '/'.
std::string sender_folder(std::string_view sender) {
    const std::size_t slash = std::min(sender.find('/'), sender.size());
    std::string name(prefix);
    for (const char c : sender.substr(0, slash)) {
        if (is_word(c) || c == '.' || c == '-')
            name += c;
        else
            name += fmt::format("={:02X}", static_cast<unsigned char>(c));
    }
    return name + "_" + std::string(sender.substr(std::min(slash + 1, sender.size())));
}

std::string folder_sender(std::string_view folder) {
    const std::size_t mark = folder.find('_');
    if (!folder.starts_with(prefix) || mark == std::string_view::npos) return {};
    std::string sender;
    for (std::size_t i = prefix.size(); i < mark; ++i) {
        if (folder[i] == '=' && i + 2 < mark && hex_digit(folder[i + 1]) >= 0 &&
            hex_digit(folder[i + 2]) >= 0) {
            sender += static_cast<char>(hex_digit(folder[i + 1]) * 16 + hex_digit(folder[i + 2]));
            i += 2;
        } else {
            sender += folder[i];
        }
    }
    return sender + "/" + std::string(folder.substr(mark + 1));
}

dropped_files::dropped_files(fs::path state, fs::path uploads)
    : state_(std::move(state)), uploads_(std::move(uploads)) {}

// Step by step below the agent's own directory: a link in the way, whoever put it there, is an error and no way.
unique_fd dropped_files::open(bool make, const std::string& folder) const {
    constexpr int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    fs::path walked = state_;
    unique_fd at(
        check(::open(state_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open {}", state_.native()));
    fs::path below = uploads_.lexically_relative(state_) / "drop";
    if (!folder.empty()) below /= folder;
    for (const fs::path& each : below) {
        walked /= each;
        if (make && ::mkdirat(at.get(), each.c_str(), 0700) != 0 && errno != EEXIST)
            fail_errno(errno, "make {}", walked.native());
        unique_fd next(::openat(at.get(), each.c_str(), flags));
        if (!next && errno == ENOENT && !make) return {};
        if (!next) fail_errno(errno, "open {} (links are not followed)", walked.native());
        at = std::move(next);
    }
    return at;
}

task<dropped_file> dropped_files::keep(uring& ring, std::string sender, std::string name,
                                       std::string_view bytes) const {
    if (bytes.size() > largest_dropped) throw session_refusal(400, "the file is larger than 100 MiB");
    const std::string folder = sender_folder(sender);
    const unique_fd directory = open(true, folder);
    if (bytes_in(directory) + bytes.size() > largest_drop_folder)
        throw session_refusal(
            400, fmt::format("the files of {} fill 1 GiB here: some must be deleted first", sender));
    const std::string plain = plain_file_name(name);
    for (int number = 0; number < most_numbers; ++number) {
        const std::string stored = numbered(plain, number);
        const unique_fd file(::openat(directory.get(), stored.c_str(),
                                      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
        if (!file && errno == EEXIST) continue;
        const fs::path path = uploads_ / "drop" / folder / stored;
        if (!file) fail_errno(errno, "keep the file {}", path.native());
        for (std::size_t at = 0; at < bytes.size(); at += piece) { // others have turns
            const std::string_view part = bytes.substr(at, piece);
            const int written = co_await write_all(ring, file.get(), std::as_bytes(std::span(part)));
            if (written >= 0) continue;
            ::unlinkat(directory.get(), stored.c_str(), 0); // half a file is worse than none
            fail_errno(-written, "keep the file {}", path.native());
        }
        co_return dropped_file{
            .from = std::move(sender), .name = stored, .path = path.native(), .size = bytes.size()};
    }
    throw session_refusal(400, fmt::format("{} has sent a thousand files of this name", sender));
}

void dropped_files::read_folder(const std::string& folder, std::vector<dropped_file>& into) const {
    const std::string sender = folder_sender(folder);
    if (sender.empty()) return;
    const unique_fd directory = open(false, folder);
    if (!directory) return;
    for (const std::string& name : names_in(directory)) {
        struct stat what{};
        if (::fstatat(directory.get(), name.c_str(), &what, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(what.st_mode))
            continue;
        into.push_back({.from = sender,
                        .name = name,
                        .path = (uploads_ / "drop" / folder / name).native(),
                        .size = static_cast<std::uint64_t>(what.st_size),
                        .time = what.st_mtim.tv_sec});
    }
}

std::vector<dropped_file> dropped_files::list() const {
    std::vector<dropped_file> all;
    const unique_fd top = open(false, "");
    if (!top) return all;
    for (const std::string& each : names_in(top)) read_folder(each, all);
    std::ranges::sort(all, [](const dropped_file& a, const dropped_file& b) {
        return std::tie(b.time, a.path) < std::tie(a.time, b.path);
    });
    return all;
}

bool dropped_files::remove(const std::string& sender, const std::string& name) const {
    const std::string folder = sender_folder(sender);
    // A name of several steps would lead elsewhere.
    if (name.empty() || name.find('/') != std::string::npos || folder.find('/') != std::string::npos)
        return false;
    const unique_fd directory = open(false, folder);
    struct stat what{};
    return directory && ::fstatat(directory.get(), name.c_str(), &what, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISREG(what.st_mode) && ::unlinkat(directory.get(), name.c_str(), 0) == 0;
}

} // namespace pinfold
