// Each act that a cage was refused or allowed, on a line of its own, so that tools/test can count how many were tried.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace pinfold::test {

// Only cages as the product builds them are worth counting. Nothing happens unless tools/test asks for it.
inline void count_act(bool allowed, const std::string& mode, const std::string& act) {
    const char* path = std::getenv("PINFOLD_TEST_ACTS");
    if (path == nullptr) return;
    if (FILE* file = std::fopen(path, "ae"); file != nullptr) {
        (void)std::fprintf(file, "%s %s %s\n", allowed ? "allowed" : "refused", mode.c_str(), act.c_str());
        (void)std::fclose(file);
    }
}

} // namespace pinfold::test
