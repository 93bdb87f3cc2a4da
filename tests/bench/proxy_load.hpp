// Both ends of a benchmark of proxies: clients that ask again as soon as they are answered, and an upstream that answers at once.
#pragma once

#include "base/unique_fd.hpp"

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace pinfold::bench {

struct load_result {
    double requests_s = 0;
    std::vector<double> latencies_us;
    std::size_t failed = 0; // answers that are no 200, and connections that ended
};

// `connections` of one client at this socket, each with one question at a time, for as long as `time` after `warm_up`.
[[nodiscard]] load_result put_load(const std::filesystem::path& socket, std::string_view question,
                                   std::size_t connections, std::chrono::milliseconds warm_up,
                                   std::chrono::milliseconds time);

// Answers every request with 1 KiB of JSON; until it is killed.
[[noreturn]] void serve_upstream(const unique_fd& listener);

[[nodiscard]] unique_fd connect_local(const std::filesystem::path& socket,
                                      bool wait = true); // empty where it is full

} // namespace pinfold::bench
