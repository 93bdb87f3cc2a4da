#include "agent/report/set_id_bits.hpp"

#include "base/beneath.hpp"
#include "base/error.hpp"
#include "base/file.hpp"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <tuple>
#include <unistd.h>

namespace pinfold::report {

namespace {

constexpr mode_t set_id = S_ISUID | S_ISGID;

// fchmod() wants a file that was opened, and this one may forbid that: by its own descriptor, so no name is looked up.
int change_mode(const unique_fd& place, mode_t to) noexcept {
    return ::chmod(fmt::format("/proc/self/fd/{}", place.get()).c_str(), to & 07777U);
}

} // namespace

set_id_bits::set_id_bits(const std::filesystem::path& project, const picture* before, set_id_limits within)
    : within_(within) {
    if (before != nullptr) {
        for (const item& each : before->items)
            if (each.kind == set_id_kind) known_.emplace(each.path, each.mark);
    }
    const unique_fd root = open_directory(project);
    unique_fd start = open_folder_beneath(root.get(), ".");
    if (!start) fail_errno(errno, "read the project {}", project.native());
    enter(std::move(start), "", std::nullopt);
}

set_id_bits::~set_id_bits() {
    while (!levels_.empty()) leave();
}

void set_id_bits::enter(unique_fd folder, std::string path, std::optional<mode_t> closed) {
    level made{.folder = std::move(folder), .path = std::move(path), .names = {}, .closed = closed};
    bool more = false;
    try {
        made.names = names_in(made.folder.get(), within_.entries - std::min(within_.entries, entries_), more);
    } catch (const std::system_error&) {
        more = true;
    }
    if (more) is_complete_ = false;
    levels_.push_back(std::move(made));
}

void set_id_bits::leave() noexcept {
    const level& left = levels_.back();
    if (left.closed) std::ignore = ::fchmod(left.folder.get(), *left.closed);
    levels_.pop_back();
}

bool set_id_bits::step() {
    while (!levels_.empty() && levels_.back().next == levels_.back().names.size()) leave();
    if (levels_.empty()) return false;
    if (entries_ == within_.entries) {
        is_complete_ = false;
        while (!levels_.empty()) leave();
        return false;
    }
    ++entries_;
    level& in = levels_.back();
    const std::string name = in.names[in.next++];
    look_at(in, name);
    return true;
}

void set_id_bits::look_at(const level& in, const std::string& name) {
    struct stat seen{};
    if (::fstatat(in.folder.get(), name.c_str(), &seen, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno != ENOENT) is_complete_ = false;
        return;
    }
    if (S_ISDIR(seen.st_mode)) return look_into(in, name);
    if (S_ISREG(seen.st_mode) && (seen.st_mode & set_id) != 0) take_off(in, name);
}

void set_id_bits::look_into(const level& in, const std::string& name) {
    const unique_fd place = find_beneath(in.folder.get(), name);
    struct stat seen{};
    if (!place || ::fstat(place.get(), &seen) != 0 || !S_ISDIR(seen.st_mode) ||
        levels_.size() == within_.depth) {
        is_complete_ = false; // another mount, mostly
        return;
    }
    // What its owner may not list, others may be able to run.
    std::optional<mode_t> closed;
    if ((seen.st_mode & 0500U) != 0500U && seen.st_uid == ::geteuid() &&
        change_mode(place, seen.st_mode | 0500U) == 0)
        closed = seen.st_mode & 07777U;
    unique_fd folder = open_folder_beneath(place.get(), ".");
    if (folder) return enter(std::move(folder), in.path + name + "/", closed);
    if (closed) std::ignore = change_mode(place, *closed);
    is_complete_ = false;
}

void set_id_bits::take_off(const level& in, const std::string& name) {
    const unique_fd place = find_beneath(in.folder.get(), name);
    struct stat seen{};
    if (!place || ::fstat(place.get(), &seen) != 0) {
        is_complete_ = false;
        return;
    }
    if (!S_ISREG(seen.st_mode) || (seen.st_mode & set_id) == 0) return; // it is another one by now
    set_id_file one{.path = plain_line(in.path + name), .mode = mode_text(seen), .trouble = ""};
    if (known_.contains({one.path, stamp_of(seen)})) return;
    if (seen.st_uid != ::geteuid())
        one.trouble = fmt::format("it belongs to uid {}", seen.st_uid);
    else if (change_mode(place, seen.st_mode & ~set_id) != 0)
        one.trouble = std::strerror(errno);
    if (found_.size() < within_.told)
        found_.push_back(std::move(one));
    else
        is_complete_ = false;
}

} // namespace pinfold::report
