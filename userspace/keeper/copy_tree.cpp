#include "keeper/copy_tree.hpp"

#include "base/error.hpp"
#include "base/unique_fd.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <string>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <vector>

namespace pinfold {
namespace {

namespace fs = std::filesystem;

constexpr unsigned permission_bits = 01777; // no setuid, no setgid
constexpr int deepest = 32;                 // folders within folders; /etc has 6

// "etc/apt" of "/etc/apt", for the *at calls.
std::string below_root(const fs::path& path) {
    return path.relative_path().native();
}

bool everybody_reads(const struct stat& status) {
    const unsigned needed = S_ISDIR(status.st_mode) ? S_IROTH | S_IXOTH : S_IROTH;
    return (status.st_mode & needed) == needed;
}

// Where a link leads, by its text alone: inside the image it is resolved anew.
bool stays_inside(const fs::path& link, const fs::path& target) {
    const fs::path leads_to = (link.parent_path() / target).lexically_normal();
    static constexpr std::array<std::string_view, 7> known{"usr", "etc",   "bin",  "sbin",
                                                           "lib", "lib32", "lib64"};
    const fs::path place = leads_to.relative_path();
    return !place.empty() && std::ranges::find(known, place.begin()->native()) != known.end();
}

// Copies the entries of folders by their descriptors, so that nobody who renames meanwhile leads it elsewhere.
class copier {
public:
    copier(const copy_filter& filter, by how) : filter_(filter), how_(how) {}

    void copy(int from, int to, const std::string& name, const fs::path& inside, int depth) const {
        struct stat status{};
        if (::fstatat(from, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
            if (errno == ENOENT) return;
            fail_errno(errno, "look at {} of the machine", inside.native());
        }
        if (!filter_(inside)) return;
        if (S_ISLNK(status.st_mode)) return copy_link(from, to, name, inside);
        if (!everybody_reads(status)) return;
        if (S_ISDIR(status.st_mode)) return copy_folder(from, to, name, inside, depth);
        if (!S_ISREG(status.st_mode)) return;
        if (how_ == by::copy || !linked(from, to, name, status)) copy_file(from, to, name, inside);
    }

private:
    static void copy_link(int from, int to, const std::string& name, const fs::path& inside) {
        std::array<char, PATH_MAX> text{};
        const ssize_t length = check(::readlinkat(from, name.c_str(), text.data(), text.size() - 1),
                                     "read the link {} of the machine", inside.native());
        const fs::path target(std::string(text.data(), static_cast<std::size_t>(length)));
        if (!stays_inside(inside, target)) return;
        if (::symlinkat(target.c_str(), to, name.c_str()) != 0 && errno != EEXIST)
            fail_errno(errno, "make the link {} in an image", inside.native());
    }

    // False where only a copy will do: another filesystem, or a mode that must change.
    static bool linked(int from, int to, const std::string& name, const struct stat& status) {
        const bool mode_stays = (status.st_mode & (S_ISUID | S_ISGID)) == 0;
        return mode_stays && ::linkat(from, name.c_str(), to, name.c_str(), 0) == 0;
    }

    static void copy_file(int from, int to, const std::string& name, const fs::path& inside) {
        // O_NONBLOCK: what was a file a moment ago may be a FIFO now.
        const unique_fd source(
            check(::openat(from, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC),
                  "open {} of the machine", inside.native()));
        struct stat status{};
        check(::fstat(source.get(), &status), "look at {} of the machine", inside.native());
        if (!S_ISREG(status.st_mode) || !everybody_reads(status)) return;
        const unique_fd copy(check(::openat(to, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600),
                                   "make {} in an image", inside.native()));
        constexpr std::size_t at_once = std::size_t{1} << 20;
        while (check(::sendfile(copy.get(), source.get(), nullptr, at_once), "copy {} into an image",
                     inside.native()) > 0) {
        }
        check(::fchmod(copy.get(), status.st_mode & permission_bits), "set the mode of {} in an image",
              inside.native());
    }

    void copy_folder(int from, int to, const std::string& name, const fs::path& inside, int depth) const {
        if (depth == deepest)
            fail("copy {} into an image: folders within folders, more than {}", inside.native(), deepest);
        constexpr int flags = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
        const unique_fd source(
            check(::openat(from, name.c_str(), flags), "open {} of the machine", inside.native()));
        struct stat status{};
        check(::fstat(source.get(), &status), "look at {} of the machine", inside.native());
        if (::mkdirat(to, name.c_str(), 0700) != 0 && errno != EEXIST)
            fail_errno(errno, "make {} in an image", inside.native());
        const unique_fd copy(
            check(::openat(to, name.c_str(), flags), "open {} in an image", inside.native()));
        for (const std::string& entry : names_in(source.get(), "."))
            this->copy(source.get(), copy.get(), entry, inside / entry, depth + 1);
        check(::fchmod(copy.get(), status.st_mode & permission_bits), "set the mode of {} in an image",
              inside.native());
    }

    const copy_filter& filter_;
    by how_;
};

void make_parents(int to, const fs::path& path) {
    if (path.has_parent_path() && path.parent_path() != path.root_path()) make_folder(to, path.parent_path());
}

} // namespace

std::vector<std::string> names_in(int below, const char* path) {
    const int folder = ::openat(below, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0 && errno == ENOENT) return {};
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(check(folder, "open the folder {}", path)),
                                                     &::closedir);
    if (!stream) fail("read the folder {}: out of memory", path);
    std::vector<std::string> names;
    while (const dirent* entry = ::readdir(stream.get()))
        if (const std::string_view name = entry->d_name; name != "." && name != "..")
            names.emplace_back(name);
    std::ranges::sort(names);
    return names;
}

void copy_tree(int from, int to, const fs::path& path, const copy_filter& filter, by how) {
    constexpr int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
    const std::string parent = path.parent_path() == "/" ? "." : below_root(path.parent_path());
    // The machine's own folders may be links (/var on another disk); below the parent none is followed.
    const unique_fd source(::openat(from, parent.c_str(), flags));
    if (!source) {
        if (errno == ENOENT || errno == ENOTDIR) return;
        fail_errno(errno, "open {} of the machine", path.parent_path().native());
    }
    if (::faccessat(source.get(), path.filename().c_str(), F_OK, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT)
        return;
    make_parents(to, path);
    const unique_fd copy(check(::openat(to, parent.c_str(), flags), "open {} in an image", parent));
    copier(filter, how).copy(source.get(), copy.get(), path.filename().native(), path, 0);
}

void make_file(int to, const fs::path& path, std::string_view text, unsigned mode) {
    make_parents(to, path);
    const unique_fd file(
        check(::openat(to, below_root(path).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600),
              "make {} in an image", path.native()));
    while (!text.empty()) {
        const ssize_t written = check(::write(file.get(), text.data(), text.size()), "write {} of an image",
                                      path.native());
        text.remove_prefix(static_cast<std::size_t>(written));
    }
    check(::fchmod(file.get(), mode), "set the mode of {} in an image", path.native());
}

void make_folder(int to, const fs::path& path, unsigned mode) {
    make_parents(to, path);
    const std::string name = below_root(path);
    if (::mkdirat(to, name.c_str(), 0700) != 0) {
        if (errno == EEXIST) return;
        fail_errno(errno, "make {} in an image", path.native());
    }
    check(::fchmodat(to, name.c_str(), mode, 0), "set the mode of {} in an image", path.native());
}

} // namespace pinfold
