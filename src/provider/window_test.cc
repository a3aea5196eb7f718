#include "cohort/provider/window.h"

#include <gtest/gtest.h>

#include <deque>
#include <thread>
#include <vector>

#include "cohort/base/random.h"

namespace cohort {
namespace {

using namespace std::chrono_literals;

TEST(WindowTest, CountsTheLastTenSecondsInSteps) {
  Window window;
  Time now(1h);
  window.record(now, 2, false);
  window.record(now, 1, true);
  window.record(now + 5s, 0, false);
  EXPECT_EQ(window.counts(now + 5s).calls, 3U);
  EXPECT_DOUBLE_EQ(window.counts(now + 5s).error_rate(), 0.5);
  EXPECT_EQ(window.counts(now + 9s).calls, 3U);
  EXPECT_EQ(window.counts(now + 10s).calls, 1U) << "the first step is over";
  EXPECT_EQ(window.counts(now + 10s).slow, 0U);
  EXPECT_EQ(window.counts(now + 15s).calls, 0U);
  EXPECT_FALSE(window.has_trouble(now + 10s));
  window.record(now + 100s, 2, false);
  EXPECT_EQ(window.counts(now + 100s).calls, 1U) << "a step that is used again begins anew";
  window.clear();
  EXPECT_EQ(window.counts(now + 100s).calls, 0U);
}

TEST(WindowTest, AgreesWithAListOfCalls) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    const WindowOptions options{.buckets = static_cast<std::uint32_t>(1 + random.below(12)),
                                .bucket = std::chrono::milliseconds(1 + random.below(500))};
    Window window(options);
    struct Call {
      std::int64_t step;
      std::uint32_t half_errors;
      bool slow;
    };
    std::vector<Call> calls;
    Time now(std::chrono::hours(random.below(24 * 400)));
    for (int i = 0; i < 300; ++i) {
      now += random.chance(0.05) ? std::chrono::milliseconds(random.below(20'000))
                                 : std::chrono::milliseconds(random.below(50));
      const std::int64_t step = now.time_since_epoch() / options.bucket;
      calls.push_back({step, static_cast<std::uint32_t>(random.below(3)), random.chance(0.2)});
      window.record(now, calls.back().half_errors, calls.back().slow);
      Window::Counts wanted;
      for (const Call& call : calls) {
        if (call.step + options.buckets <= step) continue;
        ++wanted.calls;
        wanted.half_errors += call.half_errors;
        wanted.slow += call.slow ? 1 : 0;
      }
      const Window::Counts counts = window.counts(now);
      ASSERT_EQ(counts.calls, wanted.calls) << "seed " << seed;
      ASSERT_EQ(counts.half_errors, wanted.half_errors) << "seed " << seed;
      ASSERT_EQ(counts.slow, wanted.slow) << "seed " << seed;
    }
  }
}

TEST(WindowTest, ItsRoundsDoNotWrap) {
  // Of one step of 1 ms a round is over after a millisecond: 2^18 of them in less than five minutes.
  for (const std::uint32_t buckets : {1U, 3U, 60U}) {
    Window window({.buckets = buckets, .bucket = 1ms});
    const Time start(1h);
    for (std::uint32_t i = 0; i < buckets; ++i) window.record(start + i * 1ms, 2, true);
    const Duration wrap = buckets * (1U << 18U) * 1ms;
    EXPECT_EQ(window.counts(start + wrap).calls, 0U);
    window.record(start + wrap, 0, false);
    EXPECT_EQ(window.counts(start + wrap).calls, 1U);
    EXPECT_EQ(window.counts(start + wrap).half_errors, 0U);
    // Never silent for a whole round, and never at the same steps as before.
    for (std::uint32_t i = 0; i < buckets; ++i) window.record(start + wrap + i * 1ms, 2, true);
    const Duration half = std::max(1U, buckets / 2) * 1ms;
    Time now = start + wrap;
    while (now < start + 2 * wrap) window.record(now += half, 0, false);
    EXPECT_EQ(window.counts(now).half_errors, 0U);
  }
}

TEST(WindowTest, CountsTheLastCalls) {
  Window window({.kind = WindowOptions::Kind::kCalls, .calls = 7});
  Random random(1);
  std::deque<std::pair<std::uint32_t, bool>> last;
  for (int i = 0; i < 200; ++i) {
    if (random.chance(0.02)) {
      window.clear();
      last.clear();
    }
    last.emplace_back(static_cast<std::uint32_t>(random.below(3)), random.chance(0.5));
    if (last.size() > 7) last.pop_front();
    window.record(Time(), last.back().first, last.back().second);
    std::uint64_t errors = 0;
    std::uint64_t slow = 0;
    for (const auto& [half_errors, is_slow] : last) {
      errors += half_errors;
      slow += is_slow ? 1 : 0;
    }
    ASSERT_EQ(window.counts(Time()).calls, last.size());
    ASSERT_EQ(window.counts(Time()).half_errors, errors);
    ASSERT_EQ(window.counts(Time()).slow, slow);
  }
}

TEST(WindowTest, AFullStepIsHalvedAndKeepsItsRates) {
  Window window;
  const Time now(1h);
  for (int i = 0; i < 100'000; ++i) window.record(now, i % 4 == 0 ? 2 : 0, i % 2 == 0);
  const Window::Counts counts = window.counts(now);
  EXPECT_GT(counts.calls, 10'000U);
  EXPECT_NEAR(counts.error_rate(), 0.25, 0.01);
  EXPECT_NEAR(counts.slow_rate(), 0.5, 0.01);
}

TEST(WindowTest, LosesNothingBetweenThreads) {
  for (const auto kind : {WindowOptions::Kind::kTime, WindowOptions::Kind::kCalls}) {
    Window window({.kind = kind, .calls = 10'000});
    const Time now(1h);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 2000; ++i) window.record(now, i % 2 == 0 ? 2 : 0, i % 4 == 0);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(window.counts(now).calls, 8000U);
    EXPECT_EQ(window.counts(now).half_errors, 8000U);
    EXPECT_EQ(window.counts(now).slow, 2000U);
  }
}

}  // namespace
}  // namespace cohort
