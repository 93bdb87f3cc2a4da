#include "keeper/host_image.hpp"

#include "base/error.hpp"
#include "base/file.hpp"
#include "keeper/copy_tree.hpp"
#include "keeper/host_etc.hpp"
#include "keeper/host_list.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <fcntl.h>
#include <fnmatch.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace pinfold {
namespace {

namespace fs = std::filesystem;
using namespace host_list;

bool anything(const fs::path& /*inside*/) {
    return true;
}

bool not_secret(const fs::path& inside) {
    if (inside.native().starts_with("/etc/apt/")) return true; // keyrings are public, whatever their names
    const std::string name = inside.filename();
    return std::ranges::none_of(never, [&](std::string_view pattern) {
        return ::fnmatch(std::string(pattern).c_str(), name.c_str(), FNM_CASEFOLD) == 0;
    });
}

// The text of a file of the machine; empty where there is none. Links of the machine's root are followed.
std::string text_of(int machine_root, const char* path) {
    if (::faccessat(machine_root, path, R_OK, 0) != 0) return {};
    return read_file_at(machine_root, path);
}

void copy_etc(int machine_root, int to) {
    const std::vector<std::string> names = names_in(machine_root, "etc");
    for (const std::string_view wanted : from_etc) {
        const fs::path path = fs::path("/etc") / wanted;
        if (wanted.find('*') == std::string_view::npos) {
            copy_tree(machine_root, to, path, not_secret);
            continue;
        }
        for (const std::string& name : names)
            if (::fnmatch(path.filename().c_str(), name.c_str(), FNM_PERIOD) == 0)
                copy_tree(machine_root, to, path.parent_path() / name, not_secret);
    }
}

void write_apt_sources(int machine_root, int to) {
    make_folder(to, "/etc/apt/sources.list.d");
    make_file(to, "/etc/apt/sources.list",
              public_source_lines(text_of(machine_root, "etc/apt/sources.list")));
    for (const std::string& name : names_in(machine_root, "etc/apt/sources.list.d")) {
        const fs::path path = fs::path("/etc/apt/sources.list.d") / name;
        const std::string text = path.extension() == ".list" || path.extension() == ".sources"
                                     ? text_of(machine_root, path.relative_path().c_str())
                                     : std::string();
        if (text.empty()) continue;
        make_file(to, path,
                  path.extension() == ".list" ? public_source_lines(text) : public_source_paragraphs(text));
    }
}

// Only where we are root: in a unit test everything belongs to its user.
void give(int to, const char* path, std::optional<uid_t> user, std::optional<gid_t> group) {
    if (::geteuid() != 0 || (!user && !group)) return;
    check(::fchownat(to, path, user.value_or(static_cast<uid_t>(-1)), group.value_or(static_cast<gid_t>(-1)),
                     AT_SYMLINK_NOFOLLOW),
          "give {} of an image its owner", path);
}

void write_accounts(int machine_root, int to) {
    const system_accounts accounts = read_system_accounts(text_of(machine_root, "etc/passwd"),
                                                          text_of(machine_root, "etc/group"));
    make_file(to, "/etc/passwd", accounts.passwd);
    make_file(to, "/etc/group", accounts.group);
    make_file(to, "/etc/shadow", accounts.shadow, 0640);
    make_file(to, "/etc/gshadow", accounts.gshadow, 0640);
    give(to, "etc/shadow", std::nullopt, accounts.shadow_group);
    give(to, "etc/gshadow", std::nullopt, accounts.shadow_group);
    // apt downloads as this user and says so on every call where it cannot.
    give(to, "var/lib/apt/lists/partial", accounts.apt_user, std::nullopt);
    give(to, "var/cache/apt/archives/partial", accounts.apt_user, std::nullopt);
}

// bin -> usr/bin and its like, as the machine has them.
void copy_merged_links(int machine_root, int to) {
    for (const std::string& name : names_in(machine_root, ".")) {
        std::array<char, PATH_MAX> text{};
        const ssize_t length = ::readlinkat(machine_root, name.c_str(), text.data(), text.size() - 1);
        if (length < 0) continue; // no link
        std::string_view target(text.data(), static_cast<std::size_t>(length));
        if (target.starts_with('/')) target.remove_prefix(1);
        if (!target.starts_with("usr/") || target.find("..") != std::string_view::npos) continue;
        check(::symlinkat(std::string(target).c_str(), to, name.c_str()), "make the link {} in an image",
              name);
    }
}

// The lists and scripts of the packages are some thousands of files, and dpkg replaces each by a rename.
void copy_packages(int machine_root, int to) {
    const fs::path lists = "/var/lib/dpkg/info";
    const auto but_lists = [&](const fs::path& inside) { return inside != lists; };
    for (const std::string_view name : from_var_lib)
        copy_tree(machine_root, to, fs::path("/var/lib") / name, but_lists);
    copy_tree(machine_root, to, lists, anything, by::link);
}

void make_link(int to, const char* target, const char* path) {
    check(::symlinkat(target, to, path), "make the link {} in an image", path);
}

} // namespace

std::string host_fingerprint(int machine_root) {
    std::uint64_t hash = 0xcbf29ce484222325; // FNV-1a
    const auto add = [&hash](std::uint64_t value) {
        for (int byte = 0; byte < 8; ++byte, value >>= 8) hash = (hash ^ (value & 0xff)) * 0x100000001b3;
    };
    add(format_version);
    for (const char* path : watched) {
        struct stat status{};
        if (::fstatat(machine_root, path, &status, 0) != 0) {
            add(0);
            continue;
        }
        add(status.st_ino);
        add(static_cast<std::uint64_t>(status.st_size));
        add(static_cast<std::uint64_t>(status.st_mtim.tv_sec));
        add(static_cast<std::uint64_t>(status.st_mtim.tv_nsec));
    }
    return fmt::format("{:016x}", hash);
}

void check_host(int machine_root, const fs::path& shown_as) {
    struct stat status{};
    if (::fstatat(machine_root, "usr", &status, 0) != 0 || !S_ISDIR(status.st_mode))
        fail("prepare image host: {} is no directory; use another image", (shown_as / "usr").native());
    for (const char* name : {"bin", "sbin", "lib"}) {
        if (::fstatat(machine_root, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode))
            continue;
        fail("prepare image host: {} is not a link into /usr, so the programs in it would be missing in a "
             "cage; install the package usrmerge, or use another image",
             (shown_as / name).native());
    }
}

void build_host(int machine_root, int to) {
    copy_merged_links(machine_root, to);
    for (const auto& [path, mode] : folders) make_folder(to, path, mode);
    copy_etc(machine_root, to);
    write_apt_sources(machine_root, to);
    write_accounts(machine_root, to);
    copy_packages(machine_root, to);
    make_file(to, "/etc/nsswitch.conf", nsswitch);
    // Written by each cage, so they must be ordinary files here.
    for (const char* name : {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf"}) make_file(to, name, "");
    for (const char* name : {"/etc/environment", "/etc/fstab"}) make_file(to, name, "");
    make_link(to, "../proc/self/mounts", "etc/mtab");
    make_link(to, "/run", "var/run");
    make_link(to, "/run/lock", "var/lock");
}

} // namespace pinfold
