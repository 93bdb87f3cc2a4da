#include "base/beneath.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <memory>
#include <sys/syscall.h>
#include <tuple>

namespace pinfold {

namespace {

constexpr std::uint64_t beneath = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;

unique_fd open_by(int folder, const std::string& path, std::uint64_t flags, std::uint64_t resolve) noexcept {
    if (path.find('\0') != std::string::npos) {
        errno = EINVAL;
        return {};
    }
    const open_how how{.flags = flags | O_CLOEXEC, .mode = 0, .resolve = resolve};
    // EAGAIN: a rename elsewhere raced with "..": the kernel could not tell, and wants to be asked again.
    for (int attempt = 0; attempt < 8; ++attempt) {
        unique_fd made(static_cast<int>(::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof how)));
        if (made || errno != EAGAIN) return made;
    }
    return {};
}

struct close_folder {
    void operator()(DIR* which) const noexcept { ::closedir(which); }
};

// How many bytes the character at the beginning has in well-formed UTF-8; 0 = it is none.
std::size_t character_size(std::string_view text) noexcept {
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
    const std::size_t size = byte(0) < 0x80   ? 1
                             : byte(0) < 0xC2 ? 0
                             : byte(0) < 0xE0 ? 2
                             : byte(0) < 0xF0 ? 3
                             : byte(0) < 0xF5 ? 4
                                              : 0;
    if (size == 0 || text.size() < size) return 0;
    for (std::size_t i = 1; i < size; ++i)
        if ((byte(i) & 0xC0) != 0x80) return 0;
    if (byte(0) == 0xE0 && byte(1) < 0xA0) return 0;
    if (byte(0) == 0xED && byte(1) > 0x9F) return 0;
    if (byte(0) == 0xF0 && byte(1) < 0x90) return 0;
    if (byte(0) == 0xF4 && byte(1) > 0x8F) return 0;
    return size;
}

// Control characters, and those that turn the direction of what follows or break a line.
bool is_steering(std::string_view character) noexcept {
    if (character.size() == 1) return static_cast<unsigned char>(character[0]) < 0x20 || character[0] == 0x7F;
    if (character.size() == 2)
        return character[0] == '\xC2' && static_cast<unsigned char>(character[1]) < 0xA0;
    if (character.size() != 3 || character[0] != '\xE2') return false;
    const auto second = static_cast<unsigned char>(character[1]),
               third = static_cast<unsigned char>(character[2]);
    return (second == 0x80 && ((third >= 0x8B && third <= 0x8F) || (third >= 0xA8 && third <= 0xAE))) ||
           (second == 0x81 && third >= 0xA0 && third <= 0xAF);
}

} // namespace

unique_fd find_beneath(int folder, const std::string& path) noexcept {
    return open_by(folder, path, O_PATH | O_NOFOLLOW, beneath | RESOLVE_NO_SYMLINKS);
}

unique_fd open_folder_beneath(int folder, const std::string& path) noexcept {
    return open_by(folder, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK,
                   beneath | RESOLVE_NO_SYMLINKS);
}

unique_fd open_found(const unique_fd& place) noexcept {
    struct stat seen{};
    if (::fstat(place.get(), &seen) != 0) return {};
    if (!S_ISREG(seen.st_mode)) {
        errno = EINVAL;
        return {};
    }
    // By the descriptor: a name would be looked up again, and may be a FIFO's by now.
    std::array<char, 32> path{"/proc/self/fd/"};
    // The zeros behind it end the name.
    std::to_chars(path.data() + std::strlen(path.data()), path.end() - 1, place.get());
    return unique_fd(::open(path.data(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

int try_link(int folder, const std::string& path) noexcept {
    return open_by(folder, path, O_PATH, beneath) ? 0 : errno;
}

std::vector<std::string> names_in(int folder, std::size_t most, bool& more) {
    std::vector<std::string> names;
    unique_fd own(check(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "read a folder"));
    const std::unique_ptr<DIR, close_folder> list(::fdopendir(own.get()));
    if (!list) fail_errno(errno, "read a folder");
    std::ignore = own.release();
    while (const dirent* each = ::readdir(list.get())) {
        const std::string_view name = each->d_name;
        if (name == "." || name == "..") continue;
        if (names.size() == most) {
            more = true;
            break;
        }
        names.emplace_back(name);
    }
    std::ranges::sort(names);
    return names;
}

std::string link_text(int folder, const std::string& name) {
    std::string text(4096, '\0');
    const ssize_t size = ::readlinkat(folder, name.c_str(), text.data(), text.size());
    text.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
    return text;
}

std::string read_at_most(int file, std::size_t most) {
    std::string text;
    std::array<char, 65536> part{};
    while (text.size() < most) {
        const ssize_t got = ::pread(file, part.data(), std::min(part.size(), most - text.size()),
                                    static_cast<off_t>(text.size()));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        text.append(part.data(), static_cast<std::size_t>(got));
    }
    return text;
}

std::string plain_line(std::string_view bytes) {
    std::string line;
    while (!bytes.empty()) {
        const std::size_t size = character_size(bytes);
        const std::string_view one = bytes.substr(0, std::max<std::size_t>(size, 1));
        bytes.remove_prefix(one.size());
        if (size > 0 && !is_steering(one) && one != "\\") {
            line += one;
            continue;
        }
        if (one == "\\") {
            line += "\\\\";
            continue;
        }
        for (const char byte : one) line += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    }
    return line;
}

} // namespace pinfold
