#include "cage/cgroup.hpp"
#include "cage/ids.hpp"
#include "support/catch.hpp"

namespace pinfold {
namespace {

TEST_CASE("cgroup v2 is found where it is mounted, hybrid machines included") {
    CHECK(find_cgroup2("25 30 0:23 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n") ==
          "/sys/fs/cgroup");
    CHECK(find_cgroup2("31 23 0:27 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
                       "33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                       "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n") ==
          "/sys/fs/cgroup/unified");
}

TEST_CASE("a part of the hierarchy, or none, is not taken for cgroup v2") {
    CHECK(find_cgroup2("25 30 0:23 /user.slice /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n") == std::nullopt);
    CHECK(find_cgroup2("33 31 0:30 / /sys/fs/cgroup rw - cgroup cgroup rw\n") == std::nullopt);
    CHECK(find_cgroup2("") == std::nullopt);
    CHECK(find_cgroup2("broken line - cgroup2") == std::nullopt);
}

TEST_CASE("id ranges are handed out once, and the last one given back comes first") {
    id_pool pool(0x70000000, 0x7002ffff); // three ranges
    const std::uint32_t first = pool.take();
    const std::uint32_t second = pool.take();
    CHECK(first == 0x70000000);
    CHECK(second == first + 65536);
    const std::uint32_t third = pool.take();
    CHECK_THROWS(pool.take());
    pool.give_back(second);
    CHECK(pool.take() == second);
    CHECK(third == second + 65536);
    CHECK(pool.in_use() == 3);
}

TEST_CASE("a range of a cage that was there before is not handed out, nor reserved twice") {
    id_pool pool(0x70000000, 0x7002ffff);
    pool.reserve(0x70000000);
    CHECK_THROWS(pool.reserve(0x70000000));
    CHECK_THROWS(pool.reserve(0x70000001)); // not the beginning of a range
    CHECK_THROWS(pool.reserve(0x70030000)); // not of this pool
    CHECK(pool.take() == 0x70010000);
    pool.give_back(0x70000000);
    CHECK(pool.take() == 0x70000000);
}

TEST_CASE("a pool that cannot be meant is refused") {
    CHECK_THROWS(id_pool(0x70000001, 0x7fffffff));
    CHECK_THROWS(id_pool(0x70000000, 0x7000fffe));
    CHECK_THROWS(id_pool(0x70010000, 0x70000000));
}

} // namespace
} // namespace pinfold
