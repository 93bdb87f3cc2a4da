#include "agent/sessions/shared_folder.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <sodium.h>
#include <string_view>

namespace pinfold {

namespace {

constexpr std::size_t longest_labels = 40; // for eyes; the hash is what tells sets apart

char name_letter(char c) {
    constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
    return plain.find(c) == std::string_view::npos ? '-' : c;
}

} // namespace

std::string shared_folder_name(std::span<const std::string> meshes) {
    if (meshes.empty()) return "shrooms-shared";
    std::string labels, hashed;
    for (const std::string& each : std::set<std::string>(meshes.begin(), meshes.end())) {
        labels += "-" + each;
        hashed += each + '\0';
    }
    labels.resize(std::min(labels.size(), longest_labels));
    std::ranges::transform(labels, labels.begin(), name_letter);
    std::array<unsigned char, crypto_generichash_BYTES_MIN> sum{};
    ::crypto_generichash(sum.data(), sum.size(), reinterpret_cast<const unsigned char*>(hashed.data()),
                         hashed.size(), nullptr, 0);
    std::string name = "shrooms-shared" + labels + "-";
    for (std::size_t i = 0; i < 8; ++i) name += fmt::format("{:02x}", sum[i]);
    return name;
}

std::filesystem::path make_shared_folder(const std::filesystem::path& state,
                                         std::span<const std::string> meshes) {
    std::filesystem::path made = state / "shared" / shared_folder_name(meshes);
    std::filesystem::create_directories(made);
    if (!std::filesystem::is_directory(std::filesystem::symlink_status(made)))
        fail("the shared folder {} is no directory: move it away", made.native());
    return made;
}

} // namespace pinfold
