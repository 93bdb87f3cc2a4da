// What the machine's resolv.conf says: where a caged cage's questions go, and its search domains.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace pinfold {

struct resolver_settings {
    std::vector<std::string> servers; // numeric, with a zone where the file has one
    std::vector<std::string> search;
};

[[nodiscard]] resolver_settings parse_resolv_conf(std::string_view text);
// A file that cannot be read gives what resolv.conf(5) says for an empty one: the machine itself.
[[nodiscard]] resolver_settings read_resolv_conf(const std::filesystem::path& file);

} // namespace pinfold
