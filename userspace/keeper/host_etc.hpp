// The files of the machine's /etc that go into the image `host` rewritten, not copied. Pure: text in, text out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace pinfold {

// The machine's system accounts: no person, no password. Inside, ids are the cage's own.
struct system_accounts {
    std::string passwd;            // uid below 1000, and nobody; shells kept, "x" for every password
    std::string group;             // likewise, without members that are not in `passwd`
    std::string shadow;            // "*" for each: nobody logs in with a password
    std::string gshadow;           // likewise
    std::optional<uid_t> apt_user; // _apt, to whom apt's download folders belong
    std::optional<gid_t> shadow_group;
};

// Malformed lines are left out. Root is always there.
[[nodiscard]] system_accounts read_system_accounts(std::string_view passwd, std::string_view group);

// A sources.list without the lines that hold a user name or password (https://user:password@mirror/).
[[nodiscard]] std::string public_source_lines(std::string_view sources_list);
// The same for the .sources format, whose unit is a paragraph.
[[nodiscard]] std::string public_source_paragraphs(std::string_view sources);

} // namespace pinfold
