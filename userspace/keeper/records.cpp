#include "keeper/records.hpp"

#include "base/error.hpp"
#include "base/file.hpp"
#include "spec/validate.hpp"
#include "wire/codec.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

namespace pinfold {

namespace {

constexpr const char* record_name = "record";

std::string to_bytes(const wire::cage_state& state) {
    const std::vector<std::byte> bytes = wire::encode({.body = wire::cages{{state}}});
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::optional<wire::cage_state> from_bytes(const std::string& text, const std::string& name) {
    auto decoded = wire::decode(std::as_bytes(std::span(text)));
    auto* found = decoded ? std::get_if<wire::cages>(&decoded->body) : nullptr;
    if (found != nullptr && found->list.size() == 1) return std::move(found->list.front());
    spdlog::error("the record {} cannot be understood: written by another version, or damaged", name);
    return std::nullopt;
}

std::vector<std::string> entries(int folder, unsigned char type) {
    std::vector<std::string> names;
    unique_fd copy(
        check(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "list a folder of records"));
    std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(copy.get()), &::closedir);
    if (!stream) fail_errno(errno, "list a folder of records");
    (void)copy.release();
    while (const dirent* entry = ::readdir(stream.get())) {
        if (entry->d_type == type && entry->d_name[0] != '.') names.emplace_back(entry->d_name);
    }
    return names;
}

} // namespace

// One that was being written when the keeper was killed had not replaced anything yet.
records::records(const std::filesystem::path& folder) : folder_(make_directory(folder)), path_(folder) {
    for (const std::string& name : entries(folder_.get(), DT_REG)) {
        if (name.ends_with(".new")) (void)::unlinkat(folder_.get(), name.c_str(), 0);
    }
}

void records::write(const std::string& name, const wire::cage_state& state) const {
    replace_file_at(folder_.get(), name, to_bytes(state));
}

void records::remove(const std::string& name) const {
    if (::unlinkat(folder_.get(), name.c_str(), 0) != 0 && errno != ENOENT)
        spdlog::warn("remove the record {}: {}", name, std::generic_category().message(errno));
    (void)::unlinkat(folder_.get(), (name + ".new").c_str(), 0);
}

std::optional<wire::cage_state> records::read(const std::string& name) const {
    if (::faccessat(folder_.get(), name.c_str(), F_OK, 0) != 0) return std::nullopt;
    return from_bytes(read_file_at(folder_.get(), name.c_str()), path_ / name);
}

std::vector<std::string> records::names() const {
    return entries(folder_.get(), DT_REG);
}

kept_files::kept_files(const std::filesystem::path& folder) : folder_(make_directory(folder)) {}

unique_fd kept_files::make(const wire::cage_state& state) const {
    const std::string owner = fmt::format("{}", state.owner);
    if (::mkdirat(folder_.get(), owner.c_str(), 0700) != 0 && errno != EEXIST)
        fail_errno(errno, "make the folder for what cages of uid {} keep", owner);
    const unique_fd theirs(check(::openat(folder_.get(), owner.c_str(), O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW),
                                 "open the folder for what cages keep"));
    if (::mkdirat(theirs.get(), state.name.c_str(), 0700) != 0 && errno != EEXIST)
        fail_errno(errno, "make the folder for what cage {} keeps", state.name);
    unique_fd directory(
        check(::openat(theirs.get(), state.name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW),
              "open what cage {} kept", state.name));
    replace_file_at(directory.get(), record_name, to_bytes(state));
    return directory;
}

std::optional<wire::cage_state> kept_files::find(std::uint32_t owner, const std::string& name) const {
    if (!is_name(name)) return std::nullopt;
    const std::string path = fmt::format("{}/{}/{}", owner, name, record_name);
    if (::faccessat(folder_.get(), path.c_str(), F_OK, 0) != 0) return std::nullopt;
    return from_bytes(read_file_at(folder_.get(), path.c_str()), path);
}

bool kept_files::remove(std::uint32_t owner, const std::string& name) const {
    const unique_fd theirs(
        ::openat(folder_.get(), fmt::format("{}", owner).c_str(), O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    return !theirs || !is_name(name) || remove_tree_at(theirs.get(), name.c_str()) == 0;
}

std::vector<wire::cage_state> kept_files::all() const {
    std::vector<wire::cage_state> found;
    for (const std::string& owner : entries(folder_.get(), DT_DIR)) {
        const auto uid = parse_number(owner);
        const unique_fd theirs(::openat(folder_.get(), owner.c_str(), O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
        if (!uid || !theirs) continue;
        for (const std::string& name : entries(theirs.get(), DT_DIR)) {
            if (auto state = find(static_cast<std::uint32_t>(*uid), name)) found.push_back(std::move(*state));
        }
    }
    return found;
}

} // namespace pinfold
