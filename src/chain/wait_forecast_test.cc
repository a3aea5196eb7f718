#include "chain/wait_forecast.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

using namespace std::chrono_literals;

class WaitForecastTest : public testing::Test {
 protected:
  // For so many seconds the group starts so many tasks in each; the store counts every five.
  std::vector<WaitForecast::Forecast> run(int seconds, int starts, std::uint64_t ready, bool paused = false) {
    std::vector<WaitForecast::Forecast> told;
    for (int second = 1; second <= seconds; ++second) {
      now += 1s;
      for (int i = 0; i < starts; ++i) forecast.note_claim("g", true, ready > 0, now);
      if (second % 5 != 0) continue;
      const auto more = forecast.note_counts({{.group = "g", .ready = ready, .paused = paused}}, 1h, now);
      told.insert(told.end(), more.begin(), more.end());
    }
    return told;
  }

  Time now{1h};
  WaitForecast forecast;
};

TEST_F(WaitForecastTest, TheWaitIsTheBacklogOverTheRate) {
  EXPECT_TRUE(run(60, 2, 600).empty());
  ASSERT_TRUE(forecast.wait("g"));
  EXPECT_NEAR(std::chrono::duration<double>(*forecast.wait("g")).count(), 300, 10);
  EXPECT_FALSE(forecast.wait("another"));
}

TEST_F(WaitForecastTest, AGroupIsToldOfOnceUntilItIsWellAgain) {
  const auto told = run(120, 1, 7200);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].group, "g");
  EXPECT_NEAR(std::chrono::duration<double>(told[0].wait).count(), 7200, 200);
  EXPECT_TRUE(run(60, 1, 3000).empty()) << "less than the limit, more than half of it";
  EXPECT_TRUE(run(60, 1, 7200).empty());
  EXPECT_TRUE(run(60, 1, 100).empty());
  EXPECT_EQ(run(60, 1, 7200).size(), 1U);
}

TEST_F(WaitForecastTest, AGroupThatStartsNothingIsSlow) {
  forecast.note_claim("g", true, true, now);
  EXPECT_EQ(run(600, 0, 10).size(), 1U) << "ten tasks, and none started in ten minutes";
}

TEST_F(WaitForecastTest, AGroupThatNeverHadAPlaceIsToldOfToo) {
  forecast.note_waiting("g", now);
  EXPECT_EQ(run(60, 0, 100).size(), 1U) << "a hundred tasks, and none started in a minute";
}

TEST_F(WaitForecastTest, WithoutABacklogOrWhilePausedNothingIsSaid) {
  EXPECT_TRUE(run(60, 1, 7200, true).empty());
  EXPECT_FALSE(forecast.wait("g"));
  run(60, 1, 0);
  EXPECT_FALSE(forecast.wait("g"));
  run(5, 1, 100'000);
  EXPECT_FALSE(forecast.wait("g")) << "too early to tell";
}

}  // namespace
}  // namespace cohort
