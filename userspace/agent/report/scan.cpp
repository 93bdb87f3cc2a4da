#include "agent/report/scan.hpp"

#include "agent/report/git_config.hpp"
#include "agent/report/kinds.hpp"
#include "base/beneath.hpp"
#include "base/error.hpp"
#include "base/file.hpp"

#include <algorithm>
#include <array>
#include <sodium.h>
#include <sys/xattr.h>

namespace pinfold::report {

namespace {

constexpr std::size_t longest_shown = 300; // bytes of a value

std::string shown(std::string_view text) {
    return plain_line(text.substr(0, longest_shown)) + (text.size() > longest_shown ? "…" : "");
}

// A hash that nobody finds a second text for: what decides whether the owner is told must not be forged.
std::string hash_of(std::string_view text) {
    std::array<unsigned char, 32> sum{};
    ::crypto_generichash(sum.data(), sum.size(), reinterpret_cast<const unsigned char*>(text.data()),
                         text.size(), nullptr, 0);
    std::string made;
    for (const unsigned char each : sum) made += fmt::format("{:02x}", each);
    return made;
}

bool has(const std::vector<std::string>& names, const char* name) {
    return std::ranges::binary_search(names, name);
}

// A worktree's own folder says in which repository it is.
bool is_worktrees_own(const std::string& path, std::string_view text) {
    return path.find("worktrees/") != std::string::npos && (text == "../..\n" || text == "../..");
}

} // namespace

std::string stamp_of(const struct stat& seen) {
    return fmt::format("{}-{}-{}.{}", seen.st_size, seen.st_ino,
                       static_cast<std::int64_t>(seen.st_ctim.tv_sec), seen.st_ctim.tv_nsec);
}

std::string mode_text(const struct stat& seen) {
    return fmt::format("mode {:o}", seen.st_mode & 07777U);
}

scan::scan(std::filesystem::path project, limits within)
    : project_(std::move(project)), within_(within), root_(open_directory(project_)) {
    if (::sodium_init() < 0) fail("make a report: libsodium does not start");
    unique_fd start = open_folder_beneath(root_.get(), ".");
    if (!start) fail_errno(errno, "read the project {}", project_.native());
    enter(std::move(start), "", false, false);
}

void scan::add(const std::string& path, std::string kind, const std::string& what, const std::string& mark,
               std::string why, std::vector<std::string> details) {
    if (seen_.items.size() == within_.items) {
        seen_.is_complete = false;
        return;
    }
    for (std::string& each : details) each = shown(each);
    seen_.items.push_back({.path = plain_line(path),
                           .kind = std::move(kind),
                           .what = plain_line(what),
                           .mark = plain_line(mark),
                           .why = std::move(why),
                           .details = std::move(details)});
}

void scan::enter(unique_fd folder, std::string path, bool in_git, bool is_hooks) {
    bool more = false;
    level made{.folder = std::move(folder),
               .path = std::move(path),
               .names = {},
               .in_git = in_git,
               .is_hooks = is_hooks};
    try {
        made.names = names_in(made.folder.get(), within_.entries - std::min(within_.entries, seen_.entries),
                              more);
    } catch (const std::system_error&) {
        more = true;
    }
    if (more) seen_.is_complete = false;
    // A repository without a working folder, too: git takes such a folder for one, wherever it lies.
    made.is_git = made.path.ends_with("/.git/") || made.path == ".git/" ||
                  (has(made.names, "HEAD") && (has(made.names, "objects") || has(made.names, "commondir")));
    made.in_git = made.in_git || made.is_git;
    levels_.push_back(std::move(made));
}

bool scan::step() {
    while (!levels_.empty() && levels_.back().next == levels_.back().names.size()) levels_.pop_back();
    if (levels_.empty()) return false;
    if (seen_.entries == within_.entries) {
        seen_.is_complete = false;
        levels_.clear();
        return false;
    }
    ++seen_.entries;
    level& in = levels_.back();
    const std::string name = in.names[in.next++];
    look_at(in, name);
    return true;
}

void scan::look_at(const level& in, const std::string& name) {
    const unique_fd place = find_beneath(in.folder.get(), name);
    struct stat seen{};
    if (!place || ::fstat(place.get(), &seen) != 0) {
        if (errno != ENOENT) seen_.is_complete = false; // another mount, mostly
        return;
    }
    const std::string path = in.path + name;
    if (S_ISLNK(seen.st_mode)) return look_at_link(in, name);
    if (S_ISREG(seen.st_mode)) return look_at_file(in, name, place, seen);
    if (S_ISCHR(seen.st_mode) || S_ISBLK(seen.st_mode))
        return add(path, "device", "", fmt::format("{:o} {}", seen.st_mode, seen.st_rdev),
                   "a device of the machine");
    if (!S_ISDIR(seen.st_mode)) return; // a FIFO or a socket waits for whoever opens it, and runs nothing
    if (in.is_git && (name == "objects" || name == "logs" || name == "refs")) return; // data, and much of it
    unique_fd folder = levels_.size() < within_.depth ? open_folder_beneath(place.get(), ".") : unique_fd();
    if (!folder) {
        seen_.is_complete = false;
        return;
    }
    enter(std::move(folder), path + "/", in.in_git, in.is_git && name == "hooks");
}

void scan::look_at_link(const level& in, const std::string& name) {
    const std::string path = in.path + name, target = link_text(in.folder.get(), name);
    const std::string own = project_.native() + "/";
    // In its cage the project has the same path, so a link to a file of its own may well be an absolute one.
    const int leads = target.starts_with(own) ? try_link(root_.get(), target.substr(own.size()))
                                              : try_link(root_.get(), path);
    if (leads == EXDEV)
        return add(path, "link", "leads out to " + target, target, "who follows it leaves the project");
    if (leads != 0)
        return add(path, "link", "leads to nothing: " + target, target, "what it names may come later");
    const bool is_obeyed = name == ".git" || in.in_git || kind_of(path) != nullptr;
    if (is_obeyed) add(path, "link", "leads to " + target, target, "a tool that obeys it reads another file");
}

void scan::look_at_mode(const std::string& path, const unique_fd& place, const struct stat& seen) {
    if ((seen.st_mode & (S_ISUID | S_ISGID)) != 0)
        add(path, set_id_kind, mode_text(seen), stamp_of(seen), "who runs it becomes its owner or its group");
    const std::string own = fmt::format("/proc/self/fd/{}", place.get());
    if (::getxattr(own.c_str(), "security.capability", nullptr, 0) > 0)
        add(path, "capability", "", stamp_of(seen), "who runs it gets capabilities");
    if ((seen.st_mode & 0111U) != 0)
        add(path, program_kind, "", stamp_of(seen), "a program, and not there before in this form");
}

void scan::look_at_file(const level& in, const std::string& name, const unique_fd& place,
                        const struct stat& seen) {
    const std::string path = in.path + name;
    const bool is_git_file = in.is_hooks || (in.in_git && (name == "config" || name == "config.worktree" ||
                                                           name == "commondir" || name == "git-rebase-todo" ||
                                                           path.ends_with("info/attributes")));
    const bool is_known = is_git_file || (!in.in_git && (name == ".git" || name == ".gitattributes" ||
                                                         name == ".gitmodules" || kind_of(path) != nullptr));
    look_at_mode(path, place, seen);
    if (!is_known || (in.is_hooks && name.ends_with(".sample"))) return;
    const unique_fd file = open_found(place);
    if (!file) return add(path, "unreadable", "", stamp_of(seen), "it cannot be read, and may be read later");
    look_into(in, name, file, seen);
}

void scan::look_into(const level& in, const std::string& name, const unique_fd& file,
                     const struct stat& seen) {
    const std::string path = in.path + name, text = read_at_most(file.get(), within_.read);
    std::string mark = hash_of(text);
    if (static_cast<std::size_t>(seen.st_size) > text.size())
        mark += " " + stamp_of(seen); // its end was not read
    if (in.in_git) return look_at_git_file(in, name, text, mark);
    if (name == ".git") {
        if (text.starts_with("gitdir:"))
            add(path, "git-folder", shown(text.substr(0, text.find('\n'))), mark,
                "git uses that folder for this one");
        return;
    }
    if (name == ".gitattributes") return read_attributes(path, text);
    if (name == ".gitmodules") read_settings(path, text);
    if (name == "package.json" || name == "composer.json") {
        for (const std::string& each : scripts_in(text))
            add(path, "script", shown(each), "",
                runs_by_itself(each) ? "installing the packages runs it"
                                     : "it runs when it is asked for by name");
    }
    const file_kind* kind = kind_of(path);
    if (kind == nullptr) return;
    std::vector<std::string> details;
    if (name.ends_with(".json") && name != "package.json") details = commands_in(text);
    add(path, kind->kind, "", mark, kind->why, std::move(details));
}

void scan::look_at_git_file(const level& in, const std::string& name, const std::string& text,
                            const std::string& mark) {
    const std::string path = in.path + name;
    if (in.is_hooks) return add(path, "git-hook", "", mark, "git runs it: " + plain_line(name));
    if (path.ends_with("info/attributes")) return read_attributes(path, text);
    if (name == "git-rebase-todo") return read_todo(path, text, mark);
    if (name == "commondir") {
        if (!is_worktrees_own(path, text))
            add(path, "git-folder", shown("commondir = " + text.substr(0, text.find('\n'))), mark,
                "git takes settings and hooks from that folder, whatever stands in this one");
        return;
    }
    read_settings(path, text);
    for (const git_setting& each : read_git_config(text))
        if (each.key.starts_with("include") && each.key.ends_with(".path"))
            read_included(each.value, in.path);
}

void scan::read_settings(const std::string& path, const std::string& text) {
    for (const git_setting& each : read_git_config(text)) {
        if (const char* danger = git_danger(each))
            add(path, "git-setting", shown(each.key + " = " + each.value), hash_of(each.value), danger);
    }
}

// A file of the project that git's own settings name: what stands there is obeyed as they are.
void scan::read_included(const std::string& path, const std::string& from) {
    const std::string own = project_.native() + "/";
    const bool is_own = path.starts_with(own);
    if (path.empty() || (!is_own && (path.front() == '/' || path.front() == '~'))) return;
    const std::string place =
        std::filesystem::path(is_own ? path.substr(own.size()) : from + path).lexically_normal();
    const unique_fd found = find_beneath(root_.get(), place);
    const unique_fd file = found ? open_found(found) : unique_fd();
    if (file) read_settings(place, read_at_most(file.get(), within_.read));
}

void scan::read_todo(const std::string& path, const std::string& text, const std::string& mark) {
    std::vector<std::string> commands;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        const std::string line = text.substr(at, end - at);
        if (line.starts_with("exec ") || line.starts_with("x ")) commands.push_back(line);
        at = end + 1;
    }
    if (!commands.empty())
        add(path, "git-todo", "", mark, "git rebase --continue runs these commands", std::move(commands));
}

void scan::read_attributes(const std::string& path, const std::string& text) {
    for (const std::string& each : named_drivers(text))
        add(path, "git-attribute", shown(each), hash_of(each),
            "git runs the driver of this name, where one is set");
}

} // namespace pinfold::report
