#include "agent/git_folder.hpp"

#include "agent/run_request.hpp"
#include "base/beneath.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/text.hpp"

#include <cstring>
#include <fcntl.h>
#include <optional>
#include <sys/stat.h>
#include <tuple>

namespace pinfold {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t most_hooks = 1000, most_read = std::size_t{1} << 20;

[[noreturn]] void refuse(const fs::path& path, const std::string& why) {
    throw bad_request(fmt::format("read_only_git: {} {}", plain_line(path.native()), why));
}

// The git folder of a project, through which nothing is reached that a link leads to.
class git_folder {
public:
    explicit git_folder(const fs::path& project) : path_(project / ".git") {
        const unique_fd root = open_directory(project);
        const unique_fd place = find_beneath(root.get(), ".git");
        struct stat seen{};
        if (!place && errno == ENOENT)
            refuse(project, "has no .git: make the repository first, or leave this option out");
        if (!place || ::fstat(place.get(), &seen) != 0) cannot_read(path_);
        if (S_ISLNK(seen.st_mode)) refuse(path_, "is a link: name the folder where the repository is");
        if (!S_ISDIR(seen.st_mode))
            refuse(path_, "is a file, as in a worktree or a submodule: its settings lie outside of the "
                          "project, so no cage can write them; leave this option out");
        folder_ = open_folder_beneath(place.get(), ".");
        if (!folder_) cannot_read(path_);
        if (look("commondir"))
            refuse(path_ / "commondir", "leads git to settings elsewhere: look at it and remove it");
    }

    [[nodiscard]] int get() const noexcept { return folder_.get(); }
    [[nodiscard]] const fs::path& path() const noexcept { return path_; }
    [[nodiscard]] std::optional<struct stat> look(const std::string& name) const {
        const unique_fd place = find_beneath(folder_.get(), name);
        struct stat seen{};
        if (place && ::fstat(place.get(), &seen) == 0) return seen;
        if (errno != ENOENT) cannot_read(path_ / name);
        return std::nullopt;
    }
    // False = it is not there. A second name of the same file would stay writable.
    [[nodiscard]] bool has_file(const std::string& name) const {
        const auto seen = look(name);
        if (!seen) return false;
        if (S_ISLNK(seen->st_mode)) refuse(path_ / name, "is a link: what it leads to could be changed");
        if (!S_ISREG(seen->st_mode)) refuse(path_ / name, "is no plain file");
        if (seen->st_nlink > 1)
            refuse(path_ / name, fmt::format("has {} names, and could be changed through another one: make "
                                             "it a copy",
                                             seen->st_nlink));
        return true;
    }
    [[nodiscard]] bool has_folder(const std::string& name) const {
        const auto seen = look(name);
        if (seen && !S_ISDIR(seen->st_mode)) refuse(path_ / name, "is no folder");
        return seen.has_value();
    }
    [[nodiscard]] std::vector<std::string> hooks() const {
        const unique_fd hooks = open_folder_beneath(folder_.get(), "hooks");
        bool more = false;
        if (!hooks) cannot_read(path_ / "hooks");
        std::vector<std::string> names = names_in(hooks.get(), most_hooks, more);
        if (more) refuse(path_ / "hooks", "has more files than anybody can look at");
        return names;
    }
    // Where git reads a second file of settings. What cannot be read is taken for a yes.
    [[nodiscard]] bool has_worktree_settings() const {
        const unique_fd place = find_beneath(folder_.get(), "config");
        const unique_fd file = place ? open_found(place) : unique_fd();
        if (!file) return true;
        const std::string text = read_at_most(file.get(), most_read);
        return text.size() == most_read || lowered(text).find("worktreeconfig") != std::string::npos;
    }

private:
    [[noreturn]] static void cannot_read(const fs::path& path) {
        const int error = errno;
        refuse(path, fmt::format("cannot be used: {}", std::strerror(error)));
    }

    fs::path path_;
    unique_fd folder_;
};

} // namespace

std::vector<bind_spec> read_only_git(const fs::path& project) {
    const git_folder git(project);
    std::vector<bind_spec> list;
    const auto add = [&](const fs::path& path, bool writable) {
        list.push_back({.source = path, .target = path, .writable = writable});
    };
    add(git.path(), true);
    for (const char* name : {"config", "config.worktree"})
        if (git.has_file(name)) add(git.path() / name, false);
    if (git.has_folder("hooks")) {
        for (const std::string& each : git.hooks()) {
            const auto seen = git.look("hooks/" + each);
            if (seen && !S_ISDIR(seen->st_mode)) std::ignore = git.has_file("hooks/" + each);
        }
        add(git.path() / "hooks", false);
    }
    if (git.has_folder("info") && git.has_file("info/attributes")) {
        add(git.path() / "info", true); // else it would be moved away, and another one made
        add(git.path() / "info/attributes", false);
    }
    return list;
}

void complete_git_folder(const fs::path& project) {
    const git_folder git(project);
    const auto make_file = [&](const char* name) {
        const unique_fd made(
            ::openat(git.get(), name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
        if (!made && errno != EEXIST) fail_errno(errno, "make {}", (git.path() / name).native());
    };
    if (::mkdirat(git.get(), "hooks", 0755) != 0 && errno != EEXIST)
        fail_errno(errno, "make {}", (git.path() / "hooks").native());
    make_file("config");
    if (git.has_worktree_settings()) make_file("config.worktree");
}

} // namespace pinfold
