// Conversations on the owner's disk: where they are, and the one that goes into a sealed cage and comes out of it.
#include "agent/sessions/caged_folder.hpp"
#include "agent/sessions/place.hpp"
#include "base/file.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <fcntl.h>
#include <linux/openat2.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/syscall.h>

namespace pinfold {

namespace fs = std::filesystem;

std::string claude_folder(const fs::path& directory) {
    std::string name = directory.native();
    std::ranges::replace_if(
        name,
        [](char c) { return !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')); },
        '-');
    return name;
}

std::string pi_folder(const fs::path& directory) {
    std::string name = directory.native().substr(1);
    std::ranges::replace(name, '/', '-');
    return "--" + name + "--";
}

fs::path find_transcript(const session_world::settings& with, const std::string& id) {
    if (!is_session_name(id)) return {}; // it becomes part of a path
    std::error_code error;
    for (fs::directory_iterator each(with.home / ".claude/projects", error), end; !error && each != end;
         each.increment(error)) {
        const fs::path file = each->path() / (id + ".jsonl");
        struct stat found{};
        if (::lstat(file.c_str(), &found) == 0 && S_ISREG(found.st_mode)) return file;
    }
    return {};
}

namespace {

// Within this folder, through no link that somebody inside has planted.
unique_fd open_within(int folder, const std::string& path) {
    const open_how how{.flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC,
                       .mode = 0,
                       .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV};
    return unique_fd(static_cast<int>(::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof how)));
}

// A transcript only grows, so one that goes on does begin with what was there. Another file of that name is another
// conversation, whose id something sealed has claimed.
bool begins_with(const unique_fd& longer, const fs::path& shorter) {
    const unique_fd before(::open(shorter.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!before) return errno == ENOENT;
    std::array<char, 65536> one{}, two{};
    for (off_t at = 0;;) {
        const ssize_t got = ::pread(before.get(), one.data(), one.size(), at);
        if (got < 0) return false;
        if (got == 0) return true;
        const auto size = static_cast<std::size_t>(got);
        if (::pread(longer.get(), two.data(), size, at) != got ||
            std::memcmp(one.data(), two.data(), size) != 0)
            return false;
        at += got;
    }
}

} // namespace

void carry_transcript_out(const session_world::settings& with, const session_row& row) {
    const fs::path home = with.state / "cages" / (row.cage + ".home");
    if (!is_session_name(row.conversation) || !fs::is_directory(home)) return;
    const std::string name = claude_folder(row.directory) + "/" + row.conversation + ".jsonl";
    const unique_fd folder = open_directory(home);
    const unique_fd inside = open_within(folder.get(), ".claude/projects/" + name);
    if (!inside) return; // nothing was said in there
    const fs::path to = with.home / ".claude/projects" / name;
    if (!begins_with(inside, to)) {
        spdlog::warn(
            "session \"{}\": the transcript of its sealed cage does not go on from {}; it is not taken out",
            row.name, to.native());
        return;
    }
    if (!copy_into(inside, make_directory(to.parent_path()), to.filename(), true))
        spdlog::warn(
            "session \"{}\": its transcript in the sealed cage is no regular file, and is not taken out",
            row.name);
}

} // namespace pinfold
