#include "cohort/base/text_time.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

using namespace std::chrono_literals;

TEST(TextTimeTest, DurationsAsPeopleWriteThem) {
  EXPECT_EQ(*parse_duration("500ms"), 500ms);
  EXPECT_EQ(*parse_duration("2.5s"), 2500ms);
  EXPECT_EQ(*parse_duration("1h30m"), 90min);
  EXPECT_EQ(*parse_duration("7d"), 168h);
  EXPECT_EQ(*parse_duration("20us"), 20us);
  EXPECT_EQ(*parse_duration("0s"), 0s);
  for (const char* bad :
       {"", "5", "s", "-5s", "5x", "1h 30m", "1e3s", "nan s", "nans", "1hnans", "infs", "99999999999999d"}) {
    EXPECT_EQ(parse_duration(bad).ok(), false) << bad;
  }
}

TEST(TextTimeTest, DurationsComeBackAsTheyWere) {
  for (const Duration each : {Duration(0s), Duration(1ns), Duration(90min), Duration(168h), Duration(2500ms),
                              Duration(1h + 2min + 3s + 4ms + 5us + 6ns)}) {
    EXPECT_EQ(*parse_duration(format_duration(each)), each) << format_duration(each);
  }
  EXPECT_EQ(format_duration(90min), "1h30m");
}

TEST(TextTimeTest, TimesInAnyOffset) {
  const WallTime expected = std::chrono::sys_days(std::chrono::year(2026) / 11 / 16) + 5h + 250ms;
  EXPECT_EQ(*parse_time("2026-11-16T05:00:00.25Z"), expected);
  EXPECT_EQ(*parse_time("2026-11-16T07:30:00.250+02:30"), expected);
  EXPECT_EQ(*parse_time("2026-11-15t21:00:00.25-08:00"), expected);
  EXPECT_EQ(format_time(expected), "2026-11-16T05:00:00.25Z");
  EXPECT_EQ(format_time(*parse_time("1969-12-31T23:59:59Z")), "1969-12-31T23:59:59Z");
  for (const char* bad :
       {"", "2026-11-16", "2026-13-16T05:00:00Z", "2026-02-30T05:00:00Z", "2026-11-16T24:00:00Z", "2026-11-16T05:00:00",
        "2026-11-16T05:00:00.Z", "2026-11-16T05:00:00Zx", "2026-11-16T-5:00:00Z"}) {
    EXPECT_FALSE(parse_time(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace cohort
