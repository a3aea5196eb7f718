#include "cohort/base/retry_policy.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

using namespace std::chrono_literals;

TEST(RetryPolicyTest, WaitsGrowUpToTheirMostAndEndWithTheRetries) {
  Random random(1);
  const RetryPolicy policy{.max_retries = 5, .backoff = 100ms, .max_backoff = 1s, .jitter = 0};
  EXPECT_EQ(policy.wait_after(1, random), 100ms);
  EXPECT_EQ(policy.wait_after(3, random), 400ms);
  EXPECT_EQ(policy.wait_after(5, random), 1s);
  EXPECT_EQ(policy.wait_after(6, random), std::nullopt);
  const RetryPolicy endless{.max_retries = 2'000'000'000, .jitter = 0};
  EXPECT_EQ(endless.wait_after(1'000'000'000, random), 1min);
}

TEST(RetryPolicyTest, JitterShortensAndNeverLengthens) {
  Random random(1);
  const RetryPolicy policy{.max_retries = 9, .backoff = 1s, .multiplier = 10, .max_backoff = 5s, .jitter = 0.2};
  Duration shortest = 1h;
  for (int i = 0; i < 1000; ++i) {
    const Duration wait = policy.wait_after(9, random).value();
    EXPECT_LE(wait, 5s);
    shortest = std::min(shortest, wait);
  }
  EXPECT_GE(shortest, 4s);
  EXPECT_LT(shortest, 4100ms);
}

TEST(RetryPolicyTest, NegativeTimesAreNone) {
  Random random(1);
  EXPECT_EQ((RetryPolicy{.backoff = -1s}.wait_after(1, random)), 0s);
  EXPECT_EQ((RetryPolicy{.max_backoff = -1s}.wait_after(1, random)), 0s);
  const RetryPolicy endless{.max_retries = 100, .multiplier = 10, .max_backoff = Duration::max(), .jitter = 0};
  EXPECT_GT(endless.wait_after(50, random), 24h);
}

}  // namespace
}  // namespace cohort
