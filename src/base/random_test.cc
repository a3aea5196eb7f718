#include "cohort/base/random.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace cohort {
namespace {

TEST(RandomTest, TheSameSeedGivesTheSameNumbers) {
  Random a(7);
  Random b(7);
  Random c(8);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t number = a.next();
    EXPECT_EQ(number, b.next());
    differs = differs || number != c.next();
  }
  EXPECT_TRUE(differs);
}

TEST(RandomTest, IsTheSameOnEveryMachine) {
  Random random(1);
  EXPECT_EQ(random.next(), 12966619160104079557ULL);
}

TEST(RandomTest, StaysInItsRangeAndReachesAllOfIt) {
  Random random(1);
  std::array<int, 7> seen{};
  for (int i = 0; i < 7000; ++i) ++seen[random.below(7)];
  for (const int count : seen) EXPECT_NEAR(count, 1000, 150);
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t between = random.between(-2, 2);
    EXPECT_GE(between, -2);
    EXPECT_LE(between, 2);
    const double unit = random.unit();
    EXPECT_GE(unit, 0);
    EXPECT_LT(unit, 1);
  }
  EXPECT_EQ(random.between(5, 5), 5);
  static_cast<void>(random.between(std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()));
  EXPECT_FALSE(random.chance(0));
  EXPECT_TRUE(random.chance(1));
}

}  // namespace
}  // namespace cohort
