#include "cohort/base/token_bucket.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

using namespace std::chrono_literals;

const Time kStart = Time(1h);

TEST(TokenBucketTest, GivesItsBurstThenItsRate) {
  TokenBucket bucket({.count = 10, .period = 1s, .burst = 3}, kStart);
  EXPECT_TRUE(bucket.full(kStart));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(bucket.try_take(kStart));
  EXPECT_FALSE(bucket.try_take(kStart));
  EXPECT_EQ(bucket.next_at(kStart), kStart + 100ms);
  EXPECT_EQ(bucket.full_at(kStart), kStart + 300ms);
  EXPECT_FALSE(bucket.try_take(kStart + 99ms));
  EXPECT_TRUE(bucket.try_take(kStart + 100ms));
}

TEST(TokenBucketTest, LosesNothingToRounding) {
  TokenBucket bucket({.count = 3, .period = 1s, .burst = 1}, kStart);
  int taken = 0;
  Time now = kStart;
  const Time end = kStart + 1000s;
  while (now < end) {
    if (bucket.try_take(now)) ++taken;
    now = bucket.next_at(now);
  }
  EXPECT_EQ(taken, 3000);
}

TEST(TokenBucketTest, KeepsNoMoreThanItsBurst) {
  TokenBucket bucket({.count = 1, .period = 1s, .burst = 2}, kStart);
  EXPECT_EQ(bucket.available(kStart + 1h), 2U);
  EXPECT_TRUE(bucket.try_take(kStart + 1h));
  bucket.put_back(kStart + 1h);
  bucket.put_back(kStart + 1h);
  EXPECT_EQ(bucket.available(kStart + 1h), 2U);
}

TEST(TokenBucketTest, CorrectsTheImpossible) {
  TokenBucket bucket({.count = 0, .period = 0ns, .burst = 0}, kStart);
  EXPECT_TRUE(bucket.try_take(kStart));
  EXPECT_EQ(bucket.next_at(kStart), kStart + 1ns);
}

}  // namespace
}  // namespace cohort
