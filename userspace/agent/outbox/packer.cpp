#include "agent/outbox/packer.hpp"

#include "base/beneath.hpp"
#include "base/error.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <array>
#include <ctime>
#include <fcntl.h>
#include <sys/mman.h>

namespace pinfold::outbox {

namespace {

constexpr std::size_t part_size = std::size_t{64} * 1024; // a millisecond of compression

struct end_entry {
    void operator()(archive_entry* which) const noexcept { ::archive_entry_free(which); }
};

// The time of the last change of anything about it, which nobody but the kernel sets.
bool is_same(const struct stat& before, const struct stat& now) noexcept {
    return before.st_size == now.st_size && before.st_ctim.tv_sec == now.st_ctim.tv_sec &&
           before.st_ctim.tv_nsec == now.st_ctim.tv_nsec && now.st_nlink == 1;
}

} // namespace

struct packer::writer {
    writer(int to, std::uint64_t& count) : file(to), written(count), tar(::archive_write_new()) {
        // GNU tar's form holds names as the bytes that they are; the others want to know their character set.
        if (tar == nullptr || ::archive_write_set_format_gnutar(tar) != ARCHIVE_OK ||
            ::archive_write_add_filter_gzip(tar) != ARCHIVE_OK ||
            ::archive_write_set_filter_option(tar, "gzip", "compression-level", "1") != ARCHIVE_OK ||
            ::archive_write_open(tar, this, nullptr, put, nullptr) != ARCHIVE_OK)
            fail("make an archive: {}", tar == nullptr ? "no memory" : ::archive_error_string(tar));
    }
    writer(const writer&) = delete;
    writer& operator=(const writer&) = delete;
    ~writer() { ::archive_write_free(tar); }

    static la_ssize_t put(archive* of, void* self, const void* bytes, std::size_t size) {
        auto* own = static_cast<writer*>(self);
        const ssize_t sent = ::write(own->file, bytes, size);
        if (sent < 0)
            ::archive_set_error(of, errno, "%s", "write the archive");
        else
            own->written += static_cast<std::uint64_t>(sent);
        return sent;
    }

    int file;
    std::uint64_t& written;
    archive* tar;
};

unique_fd make_spool(const std::filesystem::path& beside) {
    unique_fd made(::open(beside.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (made) return made;
    return unique_fd(check(::memfd_create("outbox", MFD_CLOEXEC),
                           "make a file for an outbox")); // not every file system has it
}

packer::packer(const std::filesystem::path& outbox, selection what, limits within,
               const std::filesystem::path& spools)
    : walk_(outbox, std::move(what), within),
      archive_(make_spool(spools)),
      spool_(make_spool(spools)),
      writer_(std::make_unique<writer>(archive_.get(), written_)) {}

packer::~packer() = default;

void packer::begin_entry(const std::string& name, std::uint64_t size, unsigned mode, std::int64_t changed) {
    const std::unique_ptr<archive_entry, end_entry> entry(::archive_entry_new());
    if (!entry) fail("pack {}: no memory", plain_line(name));
    ::archive_entry_copy_pathname(entry.get(), name.c_str());
    ::archive_entry_set_size(entry.get(), static_cast<la_int64_t>(size));
    ::archive_entry_set_filetype(entry.get(), AE_IFREG);
    ::archive_entry_set_perm(entry.get(), mode & 0644U); // nothing in it is a program, whatever it says
    ::archive_entry_set_mtime(entry.get(), changed, 0);
    if (::archive_write_header(writer_->tar, entry.get()) < ARCHIVE_WARN)
        fail("pack {}: {}", plain_line(name), ::archive_error_string(writer_->tar));
}

void packer::write(const void* bytes, std::size_t size) {
    if (::archive_write_data(writer_->tar, bytes, size) != static_cast<la_ssize_t>(size))
        fail("pack an outbox: {}", ::archive_error_string(writer_->tar));
}

// First aside, whole: what changes while it is read is not packed, and a tar has no way back.
void packer::copy_part(const found& now) {
    std::array<char, part_size> part{};
    const auto size = static_cast<std::uint64_t>(now.seen.st_size);
    const std::size_t wanted = std::min<std::uint64_t>(part.size(), size - at_);
    const ssize_t got = ::pread(now.file.get(), part.data(), wanted, static_cast<off_t>(at_));
    struct stat seen{};
    if (got < 0 || (got == 0 && wanted > 0) || ::fstat(now.file.get(), &seen) != 0 ||
        !is_same(now.seen, seen)) {
        walk_.take_back(now);
        walk_.leave_out(now.name, reason::changed);
        now_.reset();
        return;
    }
    const auto put = check(
        ::pwrite(spool_.get(), part.data(), static_cast<std::size_t>(got), static_cast<off_t>(at_)),
        "keep a part of {}", plain_line(now.name));
    at_ += static_cast<std::uint64_t>(put);
    if (at_ < size) return;
    is_whole_ = true;
    left_ = size;
    at_ = 0;
    ++files_;
    begin_entry(now.name, size, now.seen.st_mode, now.seen.st_mtim.tv_sec);
}

void packer::write_part(const found& now) {
    std::array<char, part_size> part{};
    if (left_ > 0) {
        const auto got = check(::pread(spool_.get(), part.data(), std::min<std::uint64_t>(part.size(), left_),
                                       static_cast<off_t>(at_)),
                               "read back {}", plain_line(now.name));
        if (got == 0) fail("read back {}: it is shorter", plain_line(now.name));
        write(part.data(), static_cast<std::size_t>(got));
        at_ += static_cast<std::uint64_t>(got);
        left_ -= static_cast<std::uint64_t>(got);
    }
    if (left_ == 0) now_.reset();
}

bool packer::step() {
    if (is_done_) return false;
    if (now_) {
        if (is_whole_)
            write_part(*now_);
        else
            copy_part(*now_);
        return true;
    }
    if (walk_.step()) {
        now_ = walk_.take();
        at_ = 0;
        is_whole_ = false;
        return true;
    }
    finish();
    return false;
}

void packer::finish() {
    const std::string notice = notice_of(walk_);
    begin_entry(notice_name, notice.size(), 0644, ::time(nullptr));
    write(notice.data(), notice.size());
    if (::archive_write_close(writer_->tar) != ARCHIVE_OK)
        fail("pack an outbox: {}", ::archive_error_string(writer_->tar));
    is_done_ = true;
}

std::string notice_of(const walk& seen) {
    std::string text = notice_text();
    if (seen.left().empty()) return text;
    text += "\nLeft out:\n";
    for (const left_out& each : seen.left())
        text += fmt::format("  {} ({})\n", plain_line(each.name), each.why);
    if (seen.untold() > 0) text += fmt::format("  and {} more\n", seen.untold());
    return text;
}

} // namespace pinfold::outbox
