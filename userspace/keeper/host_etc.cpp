#include "keeper/host_etc.hpp"

#include "base/file.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>
#include <vector>

namespace pinfold {
namespace {

constexpr std::uint64_t first_person = 1000; // adduser's FIRST_UID; below are the system's accounts
constexpr std::uint64_t nobody = 65534;
constexpr std::string_view root_line = "root:x:0:0:root:/root:/bin/bash\n";

std::vector<std::string_view> split(std::string_view text, char at) {
    std::vector<std::string_view> parts;
    for (;;) {
        const std::size_t end = text.find(at);
        parts.push_back(text.substr(0, end));
        if (end == std::string_view::npos) return parts;
        text.remove_prefix(end + 1);
    }
}

std::vector<std::string_view> lines(std::string_view text) {
    if (text.empty()) return {};
    if (text.ends_with('\n')) text.remove_suffix(1);
    return split(text, '\n');
}

bool is_system(std::uint64_t id) {
    return id < first_person || id == nobody;
}

struct account {
    std::vector<std::string_view> field;
    std::uint64_t id = 0;
};

// One line, where it has `count` fields and the third is the id of a system account.
std::optional<account> system_line(std::string_view line, std::size_t count) {
    std::vector<std::string_view> fields = split(line, ':');
    if (fields.size() != count || fields[0].empty()) return std::nullopt;
    const std::optional<std::uint64_t> id = parse_number(fields[2]);
    if (!id || !is_system(*id)) return std::nullopt;
    return account{.field = std::move(fields), .id = *id};
}

void add_user(system_accounts& to, const account& one) {
    const std::vector<std::string_view>& field = one.field;
    to.passwd += fmt::format("{}:x:{}:{}:{}:{}:{}\n", field[0], field[2], field[3], field[4], field[5],
                             field[6]);
    to.shadow += fmt::format("{}:*:::::::\n", field[0]); // no dates: nothing ever expires
    if (field[0] == "_apt") to.apt_user = static_cast<uid_t>(one.id);
}

std::string kept_members(std::string_view members, const std::vector<std::string_view>& users) {
    std::string kept;
    for (const std::string_view member : split(members, ',')) {
        if (std::ranges::find(users, member) == users.end()) continue;
        if (!kept.empty()) kept += ',';
        kept += member;
    }
    return kept;
}

// user@ or user:password@ between the scheme and the next slash.
bool holds_credentials(std::string_view text) {
    for (std::size_t at = text.find("://"); at != std::string_view::npos; at = text.find("://", at)) {
        at += 3;
        const std::size_t end = std::min(text.find_first_of("/ \t\r\n", at), text.size());
        if (text.substr(at, end - at).find('@') != std::string_view::npos) return true;
    }
    return false;
}

bool is_blank(std::string_view line) {
    return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

} // namespace

system_accounts read_system_accounts(std::string_view passwd, std::string_view group) {
    system_accounts accounts;
    std::vector<std::string_view> users;
    for (const std::string_view line : lines(passwd)) {
        const auto user = system_line(line, 7);
        if (!user) continue;
        add_user(accounts, *user);
        users.push_back(user->field[0]);
    }
    if (std::ranges::find(users, "root") == users.end()) {
        accounts.passwd.insert(0, root_line);
        accounts.shadow.insert(0, "root:*:::::::\n");
    }
    for (const std::string_view line : lines(group)) {
        const auto one = system_line(line, 4);
        if (!one) continue;
        const std::string_view name = one->field[0];
        const std::string members = kept_members(one->field[3], users);
        accounts.group += fmt::format("{}:x:{}:{}\n", name, one->field[2], members);
        accounts.gshadow += fmt::format("{}:*::{}\n", name, members);
        if (name == "shadow") accounts.shadow_group = static_cast<gid_t>(one->id);
    }
    return accounts;
}

std::string public_source_lines(std::string_view sources_list) {
    std::string kept;
    for (const std::string_view line : lines(sources_list))
        if (!holds_credentials(line)) kept += fmt::format("{}\n", line);
    return kept;
}

std::string public_source_paragraphs(std::string_view sources) {
    std::string kept;
    std::string paragraph;
    const auto finish = [&] {
        if (!holds_credentials(paragraph)) kept += paragraph;
        paragraph.clear();
    };
    for (const std::string_view line : lines(sources)) {
        if (is_blank(line)) {
            finish();
            if (!kept.empty() && !kept.ends_with("\n\n")) kept += '\n';
        } else {
            paragraph += fmt::format("{}\n", line);
        }
    }
    finish();
    return kept;
}

} // namespace pinfold
