#include "agent/sessions/caged_folder.hpp"

#include "base/error.hpp"
#include "base/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <tuple>
#include <unistd.h>

namespace pinfold {

namespace {

constexpr int step_flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;

// One step down, through no link. What is in the way was put there by the cage.
unique_fd step(const unique_fd& from, const std::string& name, const std::filesystem::path& whole) {
    for (int attempt = 0; attempt < 3; ++attempt) {
        unique_fd next(::openat(from.get(), name.c_str(), step_flags));
        if (next) return next;
        if (errno == ENOTDIR || errno == ELOOP)
            (void)::unlinkat(from.get(), name.c_str(), 0);
        else if (errno != ENOENT)
            break;
        if (::mkdirat(from.get(), name.c_str(), 0700) != 0 && errno != EEXIST) break;
    }
    fail_errno(errno, "make the folder {} (at {})", whole.native(), name);
}

} // namespace

caged_folder::caged_folder(const std::filesystem::path& root) : root_(root), folder_(make_directory(root)) {}

unique_fd caged_folder::make_folder(const std::filesystem::path& below) const {
    unique_fd at(check(::openat(folder_.get(), ".", step_flags), "open {}", root_.native()));
    for (const std::filesystem::path& part : below) {
        if (part.empty() || part == ".") continue;
        if (part == ".." || part.is_absolute())
            fail("make {} below {}: it leads out", below.native(), root_.native());
        at = step(at, part.native(), root_ / below);
    }
    return at;
}

void caged_folder::make_file(const std::filesystem::path& below) const {
    const unique_fd folder = make_folder(below.parent_path());
    const std::string name = below.filename();
    struct stat found{};
    if (::fstatat(folder.get(), name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0) {
        if (S_ISREG(found.st_mode)) return;
        if (S_ISDIR(found.st_mode))
            std::ignore = remove_tree_at(folder.get(), name.c_str());
        else
            (void)::unlinkat(folder.get(), name.c_str(), 0);
    }
    const unique_fd made(::openat(folder.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!made) fail_errno(errno, "make the file {}", (root_ / below).native());
}

bool caged_folder::take_in(const std::filesystem::path& from, const std::filesystem::path& below) const {
    const unique_fd source(::open(from.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    return copy_into(source, make_folder(below.parent_path()), below.filename(), false);
}

bool copy_into(const unique_fd& source, const unique_fd& folder, const std::string& name, bool replace) {
    struct stat seen{};
    if (!source || ::fstat(source.get(), &seen) != 0 || !S_ISREG(seen.st_mode) || seen.st_nlink != 1)
        return false;
    const std::string fresh = name + ".new";
    (void)::unlinkat(folder.get(), fresh.c_str(), 0);
    const unique_fd target(
        check(::openat(folder.get(), fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), "make {}",
              fresh));
    try {
        for (off_t left = seen.st_size; left > 0;) {
            const auto copied = check(::copy_file_range(source.get(), nullptr, target.get(), nullptr,
                                                        static_cast<std::size_t>(left), 0),
                                      "copy to {}", name);
            if (copied == 0) break;
            left -= copied;
        }
    } catch (...) { // a full disk, mostly
        (void)::unlinkat(folder.get(), fresh.c_str(), 0);
        throw;
    }
    const unsigned flags = replace ? 0U : 1U; // RENAME_NOREPLACE
    if (::renameat2(folder.get(), fresh.c_str(), folder.get(), name.c_str(), flags) != 0)
        (void)::unlinkat(folder.get(), fresh.c_str(), 0);
    return true;
}

} // namespace pinfold
