#include "keeper/images.hpp"

#include "base/error.hpp"
#include "base/file.hpp"
#include "keeper/host_image.hpp"

#include <algorithm>
#include <chrono>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

namespace pinfold {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view host_name = "host";
constexpr std::string_view default_path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
constexpr std::string_view unfinished = ".building-"; // and the fingerprint
constexpr std::size_t longest_name = 64;
constexpr std::size_t kept_versions = 2;
constexpr std::chrono::hours kept_for{24 * 30}; // a cage may live that long on the version it started from

bool is_name_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

bool is_image_name(std::string_view name) {
    return !name.empty() && name.size() <= longest_name && is_name_character(name[0]) && name[0] != '.' &&
           name[0] != '-' && name[0] != '_' && std::ranges::all_of(name, is_name_character);
}

// A name that somebody sent, fit for a message.
std::string printable(std::string_view name) {
    std::string text(name.substr(0, longest_name));
    std::ranges::replace_if(text, [](char c) { return c < ' ' || c > '~'; }, '?');
    return text;
}

bool is_directory(int below, const char* path) {
    struct stat status{};
    return ::fstatat(below, path, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode);
}

// What a keeper that died while building has left. The lock says that nobody builds now.
void remove_unfinished(int folder, const fs::path& path) {
    for (const auto& entry : fs::directory_iterator(path))
        if (const std::string name = entry.path().filename(); name.starts_with(unfinished))
            remove_tree_at(folder, name.c_str());
}

// Running cages may have an older version below their overlays, so the newest stay, and every one for some weeks.
void remove_old_versions(int folder, const fs::path& path) {
    std::vector<std::pair<fs::file_time_type, std::string>> versions;
    for (const auto& entry : fs::directory_iterator(path))
        if (entry.is_directory() && !entry.path().filename().native().starts_with('.'))
            versions.emplace_back(entry.last_write_time(), entry.path().filename().native());
    std::ranges::sort(versions, std::greater{});
    for (std::size_t i = kept_versions; i < versions.size(); ++i)
        if (fs::file_time_type::clock::now() - versions[i].first > kept_for)
            remove_tree_at(folder, versions[i].second.c_str());
}

// The directory of a build; gone again unless it was finished.
class unfinished_build {
public:
    unfinished_build(int folder, std::string name) : folder_(folder), name_(std::move(name)) {}
    unfinished_build(const unfinished_build&) = delete;
    unfinished_build& operator=(const unfinished_build&) = delete;
    ~unfinished_build() {
        if (!name_.empty()) remove_tree_at(folder_, name_.c_str());
    }

    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    void finish(const std::string& final_name) {
        check(::renameat(folder_, name_.c_str(), folder_, final_name.c_str()), "put image host in its place");
        name_.clear();
    }

private:
    int folder_;
    std::string name_;
};

// Whole or not at all: built under another name and renamed when it is on the disk.
void build_version(int machine_root, int folder, const fs::path& path, const std::string& version) {
    unfinished_build build(folder, std::string(unfinished) + version);
    const fs::path place = path / build.name() / "root";
    const unique_fd root = make_directory(place, 0755);
    check(::fchmod(root.get(), 0755), "set the mode of {}", place.native()); // whatever our umask is
    build_host(machine_root, root.get());
    check(::syncfs(root.get()), "write image host to the disk");
    build.finish(version);
}

fs::path host_root(const fs::path& folder, const fs::path& machine_root) {
    const unique_fd machine = open_directory(machine_root);
    const std::string version = host_fingerprint(machine.get());
    const fs::path path = folder / host_name;
    const fs::path root = path / version / "root";
    if (is_directory(AT_FDCWD, root.c_str())) return root;

    check_host(machine.get(), machine_root);
    const unique_fd place = make_directory(path, 0755);
    const unique_fd lock(
        check(::openat(place.get(), ".lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600),
              "make the lock file of image host in {}", path.native()));
    check(::flock(lock.get(), LOCK_EX), "lock image host");
    if (is_directory(AT_FDCWD, root.c_str())) return root; // somebody else was faster
    remove_unfinished(place.get(), path);
    build_version(machine.get(), place.get(), path, version);
    remove_old_versions(place.get(), path);
    return root;
}

} // namespace

images::images(fs::path folder, fs::path machine_root)
    : folder_(std::move(folder)), machine_root_(std::move(machine_root)) {}

image images::get(std::string_view name) {
    image found{.name = std::string(name), .layers = {}, .path = std::string(default_path)};
    if (name == host_name) {
        found.layers.push_back({.lower = host_root(folder_, machine_root_), .target = "/"});
        found.layers.push_back({.lower = machine_root_ / "usr", .target = "/usr"});
        return found;
    }
    if (!is_image_name(name))
        fail("use image \"{}\": the name must be 1 to {} of a-z 0-9 . _ -, beginning with a letter or digit",
             printable(name), longest_name);
    const fs::path tree = folder_ / name;
    if (!is_directory(AT_FDCWD, tree.c_str()))
        fail(R"(use image "{}": there is no directory {}; put a root filesystem there, or use image "host")",
             name, tree.native());
    for (const char* part : {"usr", "etc"})
        if (!is_directory(AT_FDCWD, (tree / part).c_str()))
            fail("use image \"{}\": {} holds no directory {}, so it is no root filesystem", name,
                 tree.native(), part);
    found.layers.push_back({.lower = tree, .target = "/"});
    return found;
}

} // namespace pinfold
