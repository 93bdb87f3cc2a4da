#include "agent/resolv_conf.hpp"

#include <arpa/inet.h>
#include <array>
#include <fstream>
#include <sstream>

namespace pinfold {

namespace {

constexpr std::size_t most_servers = 3; // MAXNS of resolv.h
constexpr std::size_t most_domains = 6; // MAXDNSRCH
constexpr std::size_t largest_file = 64 * 1024;

bool is_numeric_address(const std::string& text) {
    std::array<unsigned char, sizeof(in6_addr)> ignored{};
    const std::string bare = text.substr(0, text.find('%'));
    return ::inet_pton(AF_INET, text.c_str(), ignored.data()) == 1 ||
           ::inet_pton(AF_INET6, bare.c_str(), ignored.data()) == 1;
}

} // namespace

resolver_settings parse_resolv_conf(std::string_view text) {
    resolver_settings settings;
    std::istringstream lines{std::string(text)};
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string keyword, value;
        words >> keyword;
        if (keyword == "nameserver") {
            words >> value;
            if (is_numeric_address(value) && settings.servers.size() < most_servers)
                settings.servers.push_back(value);
        } else if (keyword == "search" || keyword == "domain") { // the last line of either kind counts
            settings.search.clear();
            while (words >> value && settings.search.size() < most_domains) {
                if (value != ".") settings.search.push_back(value);
            }
        }
    }
    if (settings.servers.empty()) settings.servers.emplace_back("127.0.0.1");
    return settings;
}

resolver_settings read_resolv_conf(const std::filesystem::path& file) {
    std::ifstream from(file, std::ios::binary);
    std::string text(largest_file, '\0');
    from.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(from.gcount()));
    return parse_resolv_conf(text);
}

} // namespace pinfold
