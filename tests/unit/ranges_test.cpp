#include "spec/ranges.hpp"
#include "support/catch.hpp"

#include <array>
#include <pinfold/address.h>
#include <random>

using namespace pinfold;

namespace {

// What a sealed cage, and what every cage, is refused by address.h; the range that is named must be the one.
void check4(std::uint32_t address) {
    const std::array one{address};
    const auto range = range_of(one);
    CAPTURE(address);
    CHECK((range ? range->rule : 0U) == pinfold_judge4(address, PINFOLD_SEALED));
    CHECK((range && range->never ? range->rule : 0U) == pinfold_judge4(address, PINFOLD_CAGED));
}

void check6(const std::array<std::uint32_t, 4>& words) {
    if (pinfold_carries4(words.data())) return;
    const auto range = range_of(words);
    CAPTURE(words[0], words[1], words[2], words[3]);
    CHECK((range ? range->rule : 0U) == pinfold_judge6(words.data(), PINFOLD_SEALED));
    CHECK((range && range->never ? range->rule : 0U) == pinfold_judge6(words.data(), PINFOLD_CAGED));
}

} // namespace

TEST_CASE(
    "the range that explains a refusal is the one that refuses, at both ends of each IPv4 range and beyond") {
    for (const std::uint32_t first :
         {0x00000000U, 0x0a000000U, 0x64400000U, 0x7f000000U, 0xa9fe0000U, 0xac100000U,
          0xc0000000U, 0xc0000008U, 0xc0000100U, 0xc0a80000U, 0xc6120000U, 0xc6140000U,
          0xe0000000U, 0xf0000000U, 0xffffffffU, 0x0b000000U, 0x64800000U, 0x80000000U,
          0xaa000000U, 0xac200000U, 0xc0a90000U, 0x01000000U})
        for (const std::uint32_t step : {0U, 1U, 0xffffffffU}) check4(first + step);
    std::mt19937 random(20260101); // NOLINT(bugprone-random-generator-seed): the same addresses each time
    for (int i = 0; i < 20000; ++i) check4(static_cast<std::uint32_t>(random()));
}

TEST_CASE("the range that explains a refusal is the one that refuses, for IPv6 in all its disguises") {
    std::mt19937 random(20260102); // NOLINT(bugprone-random-generator-seed)
    const auto word = [&] { return static_cast<std::uint32_t>(random()); };
    const std::array firsts{0U,          0x0064ff9bU, 0x01000000U, 0x20010000U, 0x20010db8U, 0x20020000U,
                            0xfc000000U, 0xfd5eca9eU, 0xfe800000U, 0xfec00000U, 0xff020000U, 0x26064700U};
    const std::array seconds{0U, 1U, 0x00010000U, 0x0001ffffU, 0xffffffffU};
    const std::array thirds{0U,          0xffffU,     0xffff0000U, 0x00005efeU,
                            0x02005efeU, 0x01005efeU, 0x03005efeU, 0x04005efeU};
    for (const std::uint32_t a : firsts)
        for (const std::uint32_t b : seconds)
            for (const std::uint32_t c : thirds)
                for (const std::uint32_t d : {0U, 1U, 2U, 0x0a000001U, word()}) check6({a, b, c, d});
    for (int i = 0; i < 5000; ++i) check6({word(), word(), word(), word()});
}

TEST_CASE("a range says its document and that only sealed cages are refused") {
    const std::array lan{0xc0a80101U};
    const auto range = range_of(lan);
    REQUIRE(range);
    CHECK(range->text == "192.168.0.0/16");
    CHECK(range->source == "RFC 1918");
    CHECK_FALSE(range->never);
    const std::array web{0x5db8d822U};
    CHECK_FALSE(range_of(web));
}
