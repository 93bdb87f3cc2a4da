// What a benchmark prints: one flat JSON object of figures, with the unit in each name.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

namespace pinfold::bench {

// CLOCK_MONOTONIC, which all processes of the machine share.
inline std::int64_t now_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// The sample below which this share of them lies; the samples are sorted on the way.
inline double percentile(std::vector<double>& samples, double share) {
    if (samples.empty()) return 0;
    std::ranges::sort(samples);
    const auto index = static_cast<std::size_t>(std::lround(share * static_cast<double>(samples.size() - 1)));
    return samples[index];
}

class figures {
public:
    void add(std::string name, double value) { list_.emplace_back(std::move(name), value); }
    // p50, p99 and the least, in milliseconds.
    void add_ms(const std::string& name, std::vector<double> samples) {
        if (samples.empty()) return;
        add(name + "_p50_ms", percentile(samples, 0.50));
        add(name + "_p99_ms", percentile(samples, 0.99));
        add(name + "_min_ms", samples.front());
    }
    void print() const {
        std::printf("{");
        for (const auto& [name, value] : list_)
            std::printf("%s\"%s\": %.6g", &name == &list_.front().first ? "" : ", ", name.c_str(), value);
        std::printf("}\n");
    }

private:
    std::vector<std::pair<std::string, double>> list_;
};

} // namespace pinfold::bench
