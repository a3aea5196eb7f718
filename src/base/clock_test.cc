#include "cohort/base/clock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace cohort {
namespace {

using namespace std::chrono_literals;

TEST(ClockTest, AddingForEverSaturates) {
  const Time now = Time(1h);
  EXPECT_EQ(saturating_add(now, Duration::max()), Time::max());
  EXPECT_EQ(saturating_add(now, 1ms), now + 1ms);
}

TEST(ClockTest, TellsTheTimeOfTheSteadyClock) {
  Clock& clock = system_clock();
  for (int i = 0; i < 1000; ++i) {
    const Time before = std::chrono::steady_clock::now();
    const Time told = clock.now();
    const Time after = std::chrono::steady_clock::now();
    EXPECT_GE(told, before - 100us);
    EXPECT_LE(told, after + 100us);
  }
}

TEST(ClockStressTest, HardlyGoesBackFromThreadToThread) {
  Clock& clock = system_clock();
  std::atomic<Time::rep> latest{0};
  std::atomic<bool> went_back{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50'000; ++i) {
        const Time::rep seen = latest.load(std::memory_order_acquire);
        const Time::rep now = clock.now().time_since_epoch().count();
        if (now + 1'000'000 < seen) went_back = true;
        latest.store(now, std::memory_order_release);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(went_back);
}

}  // namespace
}  // namespace cohort
