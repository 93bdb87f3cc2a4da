// Catch2 for every test: version 2 on Debian 12, version 3 on Debian 13, and a skip that says what is missing.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#define CATCH_CONFIG_ENABLE_ALL_STRINGMAKERS
#include <catch2/catch.hpp>

// Version 3's names, for version 2.
namespace Catch {
using Detail::Approx;
namespace Matchers {
inline auto ContainsSubstring(const std::string& text) {
    return Contains(text);
}
} // namespace Matchers
} // namespace Catch
#endif

#include <string>

namespace pinfold::test {

// Ends the running test as skipped, also from within a helper or a fixture. `missing` says what is not there and, where
// it helps, how to get it. A binary in which nothing but skips ran exits with 77, which CTest shows as skipped.
[[noreturn]] void skip(const std::string& missing);

} // namespace pinfold::test

// Version 3 has a macro of this name (exit code 4, and no word about it on the standard output); ours is the same on both.
#undef SKIP
#define SKIP(missing) ::pinfold::test::skip(missing)
