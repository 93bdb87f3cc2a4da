#include "base/file.hpp"

#include "base/error.hpp"

#include <array>
#include <charconv>
#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <memory>
#include <sys/stat.h>
#include <sys/syscall.h>

namespace pinfold {

namespace {

constexpr std::size_t largest_small_file = std::size_t{1} << 20;

std::string read_all(int fd, const char* name) {
    std::string text;
    std::array<char, 4096> part{};
    for (;;) {
        const ssize_t got = ::read(fd, part.data(), part.size());
        if (got < 0 && errno == EINTR) continue;
        check(got, "read {}", name);
        if (got == 0) return text;
        text.append(part.data(), static_cast<std::size_t>(got));
        if (text.size() > largest_small_file) fail("read {}: it is longer than 1 MiB", name);
    }
}

// RESOLVE_NO_XDEV is what keeps a mount point whole: removing a directory detaches every mount on it, everywhere.
unique_fd open_below(int directory, const char* name) {
    open_how how{};
    how.flags = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    how.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH;
    return unique_fd(static_cast<int>(::syscall(SYS_openat2, directory, name, &how, sizeof how)));
}

std::size_t remove_contents(unique_fd directory) {
    std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(directory.get()), &::closedir);
    if (!stream) return 1;
    const int fd = directory.release(); // the stream owns it now
    std::size_t left = 0;
    while (const dirent* entry = ::readdir(stream.get())) {
        const std::string_view name = entry->d_name;
        if (name == "." || name == "..") continue;
        if (::unlinkat(fd, entry->d_name, 0) == 0) continue;
        left += remove_tree_at(fd, entry->d_name);
    }
    return left;
}

} // namespace

std::string read_file_at(int directory, const char* name) {
    const unique_fd file(check(::openat(directory, name, O_RDONLY | O_CLOEXEC), "open {}", name));
    return read_all(file.get(), name);
}

std::string read_file(const std::filesystem::path& path) {
    return read_file_at(AT_FDCWD, path.c_str());
}

void write_file_at(int directory, const char* name, std::string_view value) {
    const unique_fd file(
        check(::openat(directory, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW), "open {} to write", name));
    const ssize_t written = check(::write(file.get(), value.data(), value.size()), "write \"{}\" to {}",
                                  value, name);
    if (static_cast<std::size_t>(written) != value.size())
        fail("write \"{}\" to {}: only {} bytes went in", value, name, written);
}

void replace_file_at(int directory, const std::string& name, std::string_view value, unsigned mode) {
    const std::string fresh = name + ".new";
    (void)::unlinkat(directory, fresh.c_str(),
                     0); // of one who was killed, or a trap: a FIFO would hold us for ever
    const unique_fd file(check(
        ::openat(directory, fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode), "make {}", fresh));
    try {
        std::string_view left = value;
        while (!left.empty()) {
            const ssize_t written = check(::write(file.get(), left.data(), left.size()), "write {}", fresh);
            left.remove_prefix(static_cast<std::size_t>(written));
        }
        check(::renameat(directory, fresh.c_str(), directory, name.c_str()), "rename {} to {}", fresh, name);
    } catch (...) { // a full disk, mostly: nothing half-written stays on it
        (void)::unlinkat(directory, fresh.c_str(), 0);
        throw;
    }
}

unique_fd open_directory(const std::filesystem::path& path) {
    return unique_fd(
        check(::open(path.c_str(), O_DIRECTORY | O_CLOEXEC), "open the directory {}", path.native()));
}

unique_fd make_directory(const std::filesystem::path& path, unsigned mode) {
    if (path.has_parent_path() && path != path.root_path()) {
        if (::mkdir(path.c_str(), mode) != 0 && errno == ENOENT) {
            (void)make_directory(path.parent_path(), 0755);
            check(::mkdir(path.c_str(), mode), "make the directory {}", path.native());
        } else if (errno != EEXIST && ::access(path.c_str(), F_OK) != 0) {
            fail_errno(errno, "make the directory {}", path.native());
        }
    }
    return unique_fd(check(::open(path.c_str(), O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW),
                           "open the directory {}", path.native()));
}

std::size_t remove_tree_at(int directory, const char* name) {
    unique_fd inside = open_below(directory, name);
    if (!inside) return errno == ENOENT ? 0 : 1;
    const std::size_t left = remove_contents(std::move(inside));
    if (left > 0) return left;
    return ::unlinkat(directory, name, AT_REMOVEDIR) == 0 ? 0 : 1;
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
    if (text.ends_with('\n')) text.remove_suffix(1);
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return number;
}

} // namespace pinfold
