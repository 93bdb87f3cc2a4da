// An outbox as one .tar.gz, made a little at a time: cages' packets wait meanwhile on the same thread.
#pragma once

#include "agent/outbox/walk.hpp"

#include <memory>

namespace pinfold::outbox {

// An open file without a name, for what is too large to be held.
[[nodiscard]] unique_fd make_spool(const std::filesystem::path& beside);

class packer {
public:
    // `spools`: a folder of the agent's own. Throws as walk does.
    packer(const std::filesystem::path& outbox, selection what, limits within,
           const std::filesystem::path& spools);
    packer(const packer&) = delete;
    packer& operator=(const packer&) = delete;
    ~packer();

    // One entry, or one part of a file. False = it is done. Throws where nothing more can be written.
    bool step();

    // Once done:
    [[nodiscard]] std::size_t files() const noexcept { return files_; } // without the notice
    [[nodiscard]] const walk& seen() const noexcept { return walk_; }
    [[nodiscard]] std::uint64_t size() const noexcept { return written_; } // of the archive
    [[nodiscard]] int content() const noexcept { return archive_.get(); }  // to read from its beginning

private:
    struct writer;
    void copy_part(const found& now);
    void write_part(const found& now);
    void begin_entry(const std::string& name, std::uint64_t size, unsigned mode, std::int64_t changed);
    void write(const void* bytes, std::size_t size);
    void finish();

    walk walk_;
    unique_fd archive_, spool_;
    std::uint64_t written_ = 0;
    std::unique_ptr<writer> writer_;
    std::optional<found> now_;        // being read into the spool, and then written from it
    std::uint64_t at_ = 0, left_ = 0; // of it
    bool is_whole_ = false, is_done_ = false;
    std::size_t files_ = 0;
};

// What the archive's notice says: the notice, and what was left out.
[[nodiscard]] std::string notice_of(const walk& seen);

} // namespace pinfold::outbox
